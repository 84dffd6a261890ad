// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/settle.h"

#include <QApplication>
#include <QElapsedTimer>
#include <QEventLoop>
#include <QPainter>
#include <QPixmap>
#include <QTimer>

#include "ui/timeline/imgui_widget.h"

namespace piper::app {
namespace {

constexpr int kSettleTimeoutMs = 60'000;
constexpr int kSliceMs = 10;
/// Rounds of the event loop that must pass without new work: queued replots and layouts.
constexpr int kQuietRounds = 5;

void spin() {
    QTimer wake;
    wake.start(kSliceMs);
    QApplication::processEvents(QEventLoop::AllEvents | QEventLoop::WaitForMoreEvents);
}

}  // namespace

bool settle(ui::MainWindow& window, const ui::Executor& executor, int timeout_ms) {
    QElapsedTimer clock;
    clock.start();
    int quiet = 0;
    while (quiet < kQuietRounds) {
        if (clock.elapsed() > timeout_ms) return false;
        spin();
        bool ready = executor.idle();
        for (const auto* canvas : window.findChildren<ui::ImGuiWidget*>())
            if (canvas->isVisible() && canvas->framesPainted() == 0) ready = false;
        quiet = ready ? quiet + 1 : 0;
    }
    return true;
}

Status writeScreenshot(ui::MainWindow& window, const ui::Executor& executor, const QString& path) {
    if (!settle(window, executor, kSettleTimeoutMs))
        return fail(ErrorCode::External, "the page did not settle in {} s",
                    kSettleTimeoutMs / 1000);
    QPixmap picture = window.grab();
    // A dialog is a window of its own.
    if (QWidget* dialog = QApplication::activeModalWidget()) {
        QPainter painter(&picture);
        painter.drawPixmap(window.mapFromGlobal(dialog->mapToGlobal(QPoint())), dialog->grab());
    }
    if (!picture.save(path, "PNG"))
        return fail(ErrorCode::Io, "cannot write {}", path.toStdString());
    return {};
}

}  // namespace piper::app
