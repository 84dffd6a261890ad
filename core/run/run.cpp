// SPDX-License-Identifier: Apache-2.0
#include "core/run/run.h"
#include "core/run/recorder.h"
#include "core/run/statistics.h"
#include "core/run/vocabulary.h"
