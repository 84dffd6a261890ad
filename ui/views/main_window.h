// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QMainWindow>
#include <array>
#include <functional>

#include "ui/models/action_catalogue.h"
#include "ui/models/workbench.h"
#include "ui/views/page_icons.h"
#include "ui/views/theme.h"

class QComboBox;
class QListWidget;
class QStackedWidget;

namespace piper::ui {

/// The window: pages on the left, each made when it is first shown (the OpenGL ones too).
class MainWindow : public QMainWindow {
    Q_OBJECT
public:
    explicit MainWindow(Workbench& workbench, QWidget* parent = nullptr);

    void showPage(PageId page);
    [[nodiscard]] PageId currentPage() const;
    /// The page's widget, made now if need be.
    [[nodiscard]] QWidget* page(PageId page);

    [[nodiscard]] bool isMade(PageId page) const {
        return m_pages[static_cast<std::size_t>(page)] != nullptr;
    }
    /// All that the window does, with its keys.
    [[nodiscard]] const ActionCatalogue& actions() const { return m_actions; }
    /// The palette of all actions, until one is chosen or Esc.
    void openPalette();
    /// The dialog of the timeline's keys.
    void editKeys();
    /// Applies and remembers it.
    void chooseTheme(Theme theme);

    /// What happens to a run that goes on when the window closes.
    enum class OnClose { KeepRunning, StopRun, StayOpen };
    /// Asks the user with a dialog unless replaced.
    std::function<OnClose()> ask_on_close;

protected:
    void closeEvent(QCloseEvent* event) override;
    void changeEvent(QEvent* event) override;
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    QWidget* makeSide();
    void makeNavigation();
    void makeActions();
    QWidget* makeTour(QWidget* parent);
    void drawIcons();
    void connectModels();
    [[nodiscard]] QWidget* makePage(PageId page);
    [[nodiscard]] QWidget* makeSessionsPage();
    void acceptClose(QCloseEvent& event);
    void runEnded(const QString& run);
    [[nodiscard]] OnClose askUser();

    Workbench& m_workbench;
    ActionCatalogue m_actions;
    QComboBox* m_theme = nullptr;
    QListWidget* m_navigation;
    QStackedWidget* m_stack;
    std::array<QWidget*, kNumPages> m_pages{};
    bool m_close_when_ended = false;
};

}  // namespace piper::ui
