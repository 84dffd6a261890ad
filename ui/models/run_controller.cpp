// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/run_controller.h"
