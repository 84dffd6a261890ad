// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/schedule.h"
#include "core/schedule/simulate.h"
