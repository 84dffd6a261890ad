// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QMainWindow>
#include <array>
#include <functional>

#include "ui/models/workbench.h"
#include "ui/views/page_icons.h"

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

    /// What happens to a run that goes on when the window closes.
    enum class OnClose { KeepRunning, StopRun, StayOpen };
    /// Asks the user with a dialog unless replaced.
    std::function<OnClose()> ask_on_close;

protected:
    void closeEvent(QCloseEvent* event) override;
    void changeEvent(QEvent* event) override;

private:
    QWidget* makeSide();
    void makeNavigation();
    void drawIcons();
    void connectModels();
    [[nodiscard]] QWidget* makePage(PageId page);
    [[nodiscard]] QWidget* makeSessionsPage();
    void acceptClose(QCloseEvent& event);
    void runEnded(const QString& run);
    [[nodiscard]] OnClose askUser();

    Workbench& m_workbench;
    QListWidget* m_navigation;
    QStackedWidget* m_stack;
    std::array<QWidget*, kNumPages> m_pages{};
    bool m_close_when_ended = false;
};

}  // namespace piper::ui
