// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "app/workbench/session_run_controller.h"
#include "app/workbench/store_library.h"
#include "app/workbench/thread_executor.h"
#include "tests/support/paths.h"
#include "ui/views/main_window.h"

namespace piper::ui::test {

/// The window over the program's own parts: threads, store, sessions. Jobs of
/// this machine and the list of sessions lie in a directory of the test's own.
class WindowTest : public ::testing::Test {
protected:
    WindowTest();
    ~WindowTest() override;

    void open(const Plan& plan);
    /// Another window in place of this one, as after a restart of the program.
    void restart();
    /// Runs the event loop until the condition holds; fails the test after `timeout_ms`.
    bool waitFor(const std::function<bool()>& condition, int timeout_ms = 60'000);
    bool settled();
    template <class T>
    T* child(PageId page, const char* name) {
        auto* found = m_window->page(page)->findChild<T*>(QString::fromLatin1(name));
        EXPECT_NE(found, nullptr) << name;
        return found;
    }
    template <class T>
    T* pageAs(PageId page) {
        return qobject_cast<T*>(m_window->page(page));
    }

    piper::test::TemporaryDirectory m_directory;
    app::ThreadExecutor m_executor;
    app::StoreLibrary m_library;
    std::unique_ptr<app::SessionRunController> m_controller;
    std::unique_ptr<Workbench> m_workbench;
    std::unique_ptr<MainWindow> m_window;
};

/// Colours a picture has, up to `limit`: an empty page has one.
[[nodiscard]] int numColours(const QImage& image, int limit = 64);

}  // namespace piper::ui::test
