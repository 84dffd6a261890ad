// SPDX-License-Identifier: Apache-2.0
#include "core/cluster/cluster.h"
