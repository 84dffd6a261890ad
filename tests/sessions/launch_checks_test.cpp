// SPDX-License-Identifier: Apache-2.0
// What is said before a launch of a host that lacks something.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "sessions/deployment.h"
#include "sessions/launchers.h"
#include "sessions/local_connection.h"
#include "tests/support/example_plans.h"

namespace piper {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class LaunchChecks : public ::testing::Test {
protected:
    std::vector<std::string> warnings(Plan plan, LauncherOptions options) {
        LaunchRequest request;
        request.plan = std::move(plan);
        request.job_directory = m_directory.path() / "job";
        request.worker = worker();
        const auto launcher = makeLauncher("mpirun", *m_here, std::move(options));
        EXPECT_TRUE(launcher.ok()) << launcher.error().text();
        const auto preview = (*launcher)->preview(request);
        EXPECT_TRUE(preview.ok()) << preview.error().text();
        return preview.ok() ? preview->warnings : std::vector<std::string>();
    }
    [[nodiscard]] std::string worker() const { return m_directory.path() / "worker"; }
    /// A real program whose C library has a name that no host knows.
    void makeWorkerThatLacksALibrary() const {
        std::string program = test::readText("/bin/true");
        const std::string known = "libc.so.6", lacking = "libq.so.6";
        for (std::size_t at = 0; (at = program.find(known, at)) != std::string::npos;)
            program.replace(at, known.size(), lacking);
        std::ofstream(worker(), std::ios::binary) << program;
        std::filesystem::permissions(worker(), std::filesystem::perms::owner_all);
    }

    test::TemporaryDirectory m_directory;
    std::unique_ptr<Connection> m_here = openLocalConnection();
};

TEST_F(LaunchChecks, AMissingWorkerOrLibraryIsNamed) {
    const Plan plan = test::tinyPlan(1, 1, 1, 1);
    EXPECT_THAT(warnings(plan, {}), Contains(HasSubstr("there is no worker at " + worker())));
    const Status none = checkWorker(*m_here, worker());
    ASSERT_FALSE(none.ok());
    EXPECT_THAT(none.error().text(), HasSubstr("no worker on local"));

    makeWorkerThatLacksALibrary();
    EXPECT_THAT(warnings(plan, {}),
                Contains(HasSubstr("cannot start: library libq.so.6 is missing")));
    const Status lacking = checkWorker(*m_here, worker());
    ASSERT_FALSE(lacking.ok());
    EXPECT_THAT(lacking.error().text(), HasSubstr("it lacks libq.so.6"));
    EXPECT_THAT(lacking.error().text(), HasSubstr("session add --worker PATH"));

    std::ofstream(worker()) << "no program of this machine\n";
    const Status nonsense = checkWorker(*m_here, worker());
    ASSERT_FALSE(nonsense.ok());
    EXPECT_THAT(nonsense.error().text(), HasSubstr("the worker does not run on"));
}

TEST_F(LaunchChecks, TasksAreHeldAgainstDevices) {
    const std::filesystem::path program = m_directory.path() / "nvidia-smi";
    std::ofstream(program) << "#!/bin/sh\necho 'GPU 0: a'; echo 'GPU 1: a'\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    LauncherOptions two;  // whatever this machine has
    two.extra_lines = {"PATH=" + m_directory.path().string() + ":$PATH"};
    const Plan eight = test::tinyPlan(1, 1, 8, 1);
    EXPECT_THAT(warnings(eight, two),
                Contains(HasSubstr("8 tasks a node, but nvidia-smi finds 2")));
    Plan pair = eight;
    pair.cluster.devices_per_node = 2;
    EXPECT_THAT(warnings(pair, two), Not(Contains(HasSubstr("nvidia-smi finds"))));
}

TEST_F(LaunchChecks, ConnectionsOfTheDeviceMatterWithTensorParallelism) {
    Plan plan = test::tinyPlan(1, 1, 1, 1);
    LauncherOptions options;
    options.extra_lines = {"export CUDA_DEVICE_MAX_CONNECTIONS=8"};
    EXPECT_THAT(warnings(plan, options), Not(Contains(HasSubstr("MAX_CONNECTIONS"))));
    plan.layout.tp = 2;
    EXPECT_THAT(warnings(plan, options),
                Contains(HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS is 8; tp 2 and cp 1")));
    options.extra_lines = {"export CUDA_DEVICE_MAX_CONNECTIONS=1"};
    EXPECT_THAT(warnings(plan, options), Not(Contains(HasSubstr("MAX_CONNECTIONS"))));
}

TEST_F(LaunchChecks, AnInterfaceThatEveryHostHasAlikeIsNamed) {
    LauncherOptions options;
    options.hosts = {"node1:4", "node2:4"};
    options.extra_lines = {"ls() { echo lo docker0 eth0; }"};
    const Plan plan = test::tinyPlan(1, 1, 8, 1);
    EXPECT_THAT(warnings(plan, options), Contains(HasSubstr("docker0 has the same address")));
    options.network_interface = "eth0";
    EXPECT_THAT(warnings(plan, options), Not(Contains(HasSubstr("docker0"))));
    options.network_interface = "eth7";
    EXPECT_THAT(warnings(plan, options), Contains(HasSubstr("no interface eth7 here; there are:")));
    options.hosts = {"node1:4", "node2:2"};
    EXPECT_THAT(warnings(plan, options), Contains(HasSubstr("8 ranks over hosts with 6 slots")));
}

}  // namespace
}  // namespace piper
