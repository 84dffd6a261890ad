// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/models/action_catalogue.h"
#include "ui/models/workbench.h"

class QMenu;

namespace piper::ui {

class MainWindow;

/// Everything the window does, as actions with their keys. What a page has a button or a field for
/// is done by showing the page and using that.
void addWindowActions(ActionCatalogue& catalogue, MainWindow& window, Workbench& workbench);

/// A menu a section, of the same actions; what is not possible is grey while the menu is open.
[[nodiscard]] QMenu* makeWindowMenu(const ActionCatalogue& catalogue, QWidget* parent);

}  // namespace piper::ui
