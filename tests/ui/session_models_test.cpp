// SPDX-License-Identifier: GPL-3.0-or-later
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

#include "tests/support/paths.h"
#include "ui/models/cluster_boxes.h"
#include "ui/models/sessions_view_model.h"

namespace piper::ui {
namespace {

using ::testing::HasSubstr;

template <class T>
bool ended(const std::future<T>& future) {
    return future.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
}

/// Until the board shows a question; its id.
std::uint64_t waitForPrompt(const PromptBoard& board) {
    for (int i = 0; i < 2000; ++i) {
        if (const std::optional<Prompt> prompt = board.current()) return prompt->id;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "nothing was asked";
    return 0;
}

const HostKeyQuestion kKey{"me@host:22", "host", "ssh-ed25519", "SHA256:abc"};
const SshQuestions kTwo{"me@jump:22", "Log-in", "Both:", {{"Password:", false}, {"Code:", true}}};

TEST(PromptBoard, HandsAnswersToTheConnectionThatAsks) {
    PromptBoard board;
    const auto prompter = board.prompterFor(QStringLiteral("box"));
    auto key = std::async(std::launch::async, [&] { return prompter->acceptHostKey(kKey); });
    const std::uint64_t first = waitForPrompt(board);
    EXPECT_EQ(promptText(*board.current()),
              QStringLiteral("box: host key of me@host:22 is not known\nssh-ed25519 SHA256:abc"));
    board.answer(first, {"yes"});  // no answer to a question of this kind
    ASSERT_TRUE(board.current());
    board.acceptKey(first);
    ASSERT_TRUE(ended(key));
    EXPECT_TRUE(key.get());
    EXPECT_FALSE(board.current());

    auto answers = std::async(std::launch::async, [&] { return prompter->answer(kTwo); });
    const std::uint64_t second = waitForPrompt(board);
    EXPECT_EQ(promptText(*board.current()),
              QStringLiteral("box: me@jump:22 asks\nLog-in\nBoth:\nPassword: (hidden)\nCode:"));
    board.answer(second, {"secret", "1"});
    ASSERT_TRUE(ended(answers));
    const auto given = answers.get();
    ASSERT_TRUE(given);
    EXPECT_EQ(*given, (std::vector<std::string>{"secret", "1"}));
}

TEST(PromptBoard, QuestionsOfTwoConnectionsAreAskedOneAfterTheOther) {
    PromptBoard board;
    const auto a = board.prompterFor(QStringLiteral("a"));
    const auto b = board.prompterFor(QStringLiteral("b"));
    auto first = std::async(std::launch::async, [&] { return a->answer(kTwo); });
    const std::uint64_t one = waitForPrompt(board);
    auto second = std::async(std::launch::async, [&] { return b->acceptHostKey(kKey); });
    EXPECT_EQ(board.current()->session, QStringLiteral("a"));
    board.refuse(one);
    ASSERT_TRUE(ended(first));
    EXPECT_FALSE(first.get());
    waitForPrompt(board);
    EXPECT_EQ(board.current()->session, QStringLiteral("b"));
    b->close();
    ASSERT_TRUE(ended(second));
    EXPECT_FALSE(second.get());
    EXPECT_FALSE(b->acceptHostKey(kKey)) << "a closed one asks nothing any more";
}

TEST(PromptBoard, ItsEndRefusesWhatWaits) {
    auto board = std::make_unique<PromptBoard>();
    const auto prompter = board->prompterFor(QStringLiteral("box"));
    auto answers = std::async(std::launch::async, [&] { return prompter->answer(kTwo); });
    waitForPrompt(*board);
    board.reset();
    ASSERT_TRUE(ended(answers));
    EXPECT_FALSE(answers.get());
    EXPECT_FALSE(prompter->acceptHostKey(kKey));
}

class SessionsModel : public ::testing::Test {
protected:
    SessionConfig box() const {
        SessionConfig out;
        out.name = "box";
        out.host = "login.example";
        out.launcher = "sbatch";
        out.launch.partition = "gpu";
        return out;
    }
    SessionStore store() const { return SessionStore(m_directory.path() / "sessions.json"); }

    piper::test::TemporaryDirectory m_directory;
    ManualExecutor m_executor;
};

TEST_F(SessionsModel, FollowsTheStore) {
    ASSERT_TRUE(store().add(box()).ok());
    SessionsViewModel sessions(m_executor, store());
    EXPECT_EQ(sessions.dump(),
              QStringLiteral("* This machine [not connected] local processes · ranks by mpirun\n"));
    sessions.load();
    m_executor.runAll();
    sessions.select(QStringLiteral("box"));
    EXPECT_EQ(sessions.dump(),
              QStringLiteral("  This machine [not connected] local processes · ranks by mpirun\n"
                             "* box [not connected] login.example · ranks by sbatch · partition "
                             "gpu\n"));
    sessions.forget(QStringLiteral("box"));
    m_executor.runAll();
    EXPECT_EQ(sessions.all().size(), 1U);
    EXPECT_EQ(&sessions.current(), &sessions.local());
    EXPECT_EQ(store().list()->size(), 1U);
}

TEST_F(SessionsModel, SaysWhyASessionIsNotTaken) {
    SessionsViewModel sessions(m_executor, store());
    QString why, added;
    QObject::connect(&sessions, &SessionsViewModel::addFailed, [&](const QString& m) { why = m; });
    QObject::connect(&sessions, &SessionsViewModel::added, [&](const QString& n) { added = n; });
    SessionConfig odd = box();
    odd.name = "b o x";
    sessions.add(odd);
    m_executor.runAll();
    EXPECT_TRUE(why.contains(QStringLiteral("'b o x' is no name"))) << why.toStdString();
    sessions.add(box());
    m_executor.runAll();
    EXPECT_EQ(added, QStringLiteral("box"));
    EXPECT_EQ(sessions.current().name(), QStringLiteral("box"));
    sessions.forget(QStringLiteral("local"));
    m_executor.runAll();
    EXPECT_TRUE(sessions.fault().contains(QStringLiteral("cannot be forgotten")));
}

TEST_F(SessionsModel, ThisMachineIsDiscovered) {
    SessionsViewModel sessions(m_executor, store());
    SessionViewModel& local = sessions.local();
    bool opened = false;
    QObject::connect(&local, &SessionViewModel::opened, [&] { opened = true; });
    local.open();
    EXPECT_EQ(local.stateText(), QStringLiteral("connecting…"));
    m_executor.runAll();
    EXPECT_TRUE(opened);
    EXPECT_EQ(local.state(), SessionViewModel::State::Open);
    const std::string all = local.dump().toStdString();
    for (const char* row : {"Host: ", "System: ", "Processors: ", "Memory: ", "GPUs: "})
        EXPECT_THAT(all, HasSubstr(row));
    local.test();
    m_executor.runAll();
    EXPECT_THAT(local.note().toStdString(), HasSubstr("It works: Linux"));
    local.close();
    EXPECT_EQ(local.state(), SessionViewModel::State::Closed);
    EXPECT_EQ(local.session(), nullptr);
}

TEST_F(SessionsModel, AFaultIsKeptWithItsHint) {
    SessionConfig nowhere = box();
    nowhere.ssh_config = (m_directory.path() / "none").string();
    PromptBoard board;
    SessionViewModel session(m_executor, board, nowhere);
    session.open();
    m_executor.runAll();
    EXPECT_EQ(session.state(), SessionViewModel::State::Failed);
    ASSERT_TRUE(session.fault());
    EXPECT_THAT(session.dump().toStdString(), HasSubstr("names a configuration that is not there"));
}

TEST(ClusterBoxes, NodesAndDevicesHangOnTheirLinks) {
    const Result<ClusterSpec> cluster = defaultCluster("H100 SXM", 6);
    ASSERT_TRUE(cluster.ok());
    const ClusterBox box = clusterBoxes(*cluster);
    const std::string all = clusterBoxesText(box).toStdString();
    EXPECT_THAT(all, HasSubstr("6 × 8 H100 SXM | "));
    EXPECT_THAT(all, HasSubstr("\n  node 0 | "));
    EXPECT_THAT(all, HasSubstr("\n    8 devices\n"));
    EXPECT_THAT(all, HasSubstr("\n  and 2 more\n"));
    EXPECT_EQ(box.count, 6);
    EXPECT_EQ(box.inside.front().inside.size(), 8U);
}

TEST(ClusterBoxes, ALinkThatSpansNodesHoldsThem) {
    const Result<ClusterSpec> gb200 = defaultCluster("GB200", 36);
    ASSERT_TRUE(gb200.ok()) << gb200.error().text();
    const std::string all = clusterBoxesText(clusterBoxes(*gb200)).toStdString();
    // 18 nodes of 4 devices share one NVLink domain of 72.
    EXPECT_THAT(all, HasSubstr("domain 0 | nvlink")) << all;
    EXPECT_THAT(all, HasSubstr("\n    node 0\n"));
    EXPECT_THAT(all, HasSubstr("\n    and 14 more\n"));
}

TEST(ClusterBoxes, OneDeviceIsABox) {
    Result<ClusterSpec> one = defaultCluster("cpu", 1);
    ASSERT_TRUE(one.ok());
    one->devices_per_node = 1;
    one->levels.clear();
    EXPECT_EQ(clusterBoxesText(clusterBoxes(*one)).toStdString().substr(0, 5), "1 × ");
}

}  // namespace
}  // namespace piper::ui
