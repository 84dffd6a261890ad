// SPDX-License-Identifier: Apache-2.0
#include "core/resources/memory.h"
#include "core/resources/work.h"
