// SPDX-License-Identifier: Apache-2.0
#include "core/search/search.h"
