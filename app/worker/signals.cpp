// SPDX-License-Identifier: Apache-2.0
#include "app/worker/signals.h"

#include <csignal>
#include <initializer_list>

namespace piper {
namespace {

volatile std::sig_atomic_t g_signal = 0;

void remember(int signal) {
    g_signal = signal;
}

}  // namespace

void watchSignals() {
    struct sigaction action {};
    action.sa_handler = remember;
    sigemptyset(&action.sa_mask);
    for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
    // A closed pipe of a launcher that died is an error of a write, not the end.
    std::signal(SIGPIPE, SIG_IGN);
}

int caughtSignal() {
    return g_signal;
}

}  // namespace piper
