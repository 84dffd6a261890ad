// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/support/mpi_main.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "kernels/transport/local_transport.h"
#include "kernels/transport/mpi_transport.h"
#include "kernels/transport/node_map.h"

namespace piper::test {
namespace {
std::unique_ptr<Transport> g_transport;
}

Transport& transport() {
    return *g_transport;
}
bool worldHas(std::size_t ranks) {
    return g_transport->world().size() == static_cast<std::int64_t>(ranks);
}

}  // namespace piper::test

/// Every rank runs the same tests; a failure on one rank is a failure of the run.
int main(int argc, char** argv) {
    using namespace piper;
    testing::InitGoogleTest(&argc, argv);
    if (launchedByMpi([](const char* name) { return std::getenv(name); })) {
        MpiOptions options;
        options.deterministic = std::getenv("PIPER_TEST_DETERMINISTIC") != nullptr;
        Result<std::unique_ptr<Transport>> made = makeMpiTransport(options);
        if (!made.ok()) {
            std::fprintf(stderr, "%s\n", made.error().text().c_str());
            return 3;
        }
        test::g_transport = std::move(made).value();
    } else {
        test::g_transport = makeLocalTransport();
    }
    if (test::transport().world().rank() != 0) {
        testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
        delete listeners.Release(listeners.default_result_printer());
        struct FailuresOnly : testing::EmptyTestEventListener {
            void OnTestPartResult(const testing::TestPartResult& result) override {
                if (result.failed())
                    std::fprintf(stderr, "rank %d: %s:%d: %s\n",
                                 static_cast<int>(test::transport().world().rank()),
                                 result.file_name(), result.line_number(), result.message());
            }
        };
        listeners.Append(new FailuresOnly);
    }
    double failed = RUN_ALL_TESTS();
    if (!test::transport().world().allReduceMax(std::span(&failed, 1)).ok()) failed = 1;
    test::g_transport.reset();
    return failed == 0 ? 0 : 1;
}
