// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/ui/window_fixture.h"

#include <QApplication>
#include <QImage>
#include <QTest>
#include <set>

#include "app/workbench/settle.h"

namespace piper::ui::test {

WindowTest::WindowTest() {
    qputenv("PIPER_JOBS", (m_directory.path() / "jobs").c_str());
    restart();
}

void WindowTest::restart() {
    if (m_window != nullptr) (void)settled();  // answers of the old one are not for the new
    m_window.reset();
    m_workbench.reset();
    m_controller.reset();
    m_controller =
        std::make_unique<app::SessionRunController>(piper::test::program("piper-worker"));
    m_workbench = std::make_unique<Workbench>(m_executor, m_library, *m_controller,
                                              SessionStore(m_directory.path() / "sessions.json"));
    m_workbench->runs.setDefaultWorkspace(
        QString::fromStdString((m_directory.path() / "runs.piper").string()));
    m_window = std::make_unique<MainWindow>(*m_workbench);
}

WindowTest::~WindowTest() = default;

void WindowTest::open(const Plan& plan) {
    m_workbench->plan.setPlan(plan);
    m_window->show();
    ASSERT_TRUE(QTest::qWaitForWindowExposed(m_window.get(), 20'000));
    // No window manager does it under Xvfb, and only an active window takes shortcuts.
    QApplication::setActiveWindow(m_window.get());
    ASSERT_TRUE(settled());
}

namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kSlowdown = 5;
#else
constexpr int kSlowdown = 1;
#endif

}  // namespace

bool WindowTest::waitFor(const std::function<bool()>& condition, int timeout_ms) {
    const bool held = QTest::qWaitFor(condition, timeout_ms * kSlowdown);
    EXPECT_TRUE(held) << "not reached in " << timeout_ms * kSlowdown << " ms";
    return held;
}

bool WindowTest::settled() {
    const bool settled = app::settle(*m_window, m_executor, 60'000 * kSlowdown);
    EXPECT_TRUE(settled);
    return settled;
}

int numColours(const QImage& image, int limit) {
    std::set<QRgb> seen;
    for (int y = 0; y < image.height(); ++y)
        for (int x = 0; x < image.width(); ++x) {
            seen.insert(image.pixel(x, y));
            if (static_cast<int>(seen.size()) >= limit) return limit;
        }
    return static_cast<int>(seen.size());
}

}  // namespace piper::ui::test
