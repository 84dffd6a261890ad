// SPDX-License-Identifier: GPL-3.0-or-later
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QElapsedTimer>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QMessageBox>
#include <QPushButton>
#include <QTest>

#include "tests/sessions/mini_ssh_server.h"
#include "tests/sessions/ssh_server.h"
#include "tests/ui/example_plan.h"
#include "tests/ui/window_fixture.h"
#include "ui/views/cluster_picture.h"
#include "ui/views/prompt_dialog.h"

namespace piper::ui {
namespace {

using piper::test::MiniSshServer;
using ::testing::HasSubstr;
using State = SessionViewModel::State;

/// The Sessions page before OpenSSH's own server on the loopback.
class SessionsPageTest : public test::WindowTest {
protected:
    void SetUp() override {
        if (const std::string why = piper::test::whyNoSshServer(); !why.empty())
            GTEST_SKIP() << why;
        m_ssh.makeKey();
        open(test::localPlan());
        m_window->showPage(PageId::Sessions);
        ASSERT_TRUE(settled());
    }
    /// A session with the host of the configuration file, chosen in the list.
    SessionViewModel& addBox() {
        SessionConfig config;
        config.name = "box";
        config.host = "host";
        config.ssh_config = m_ssh.path("config").string();
        config.directory = m_ssh.path("there").string();
        m_workbench->sessions.add(config);
        EXPECT_TRUE(waitFor([&] { return sessions().find(QStringLiteral("box")) != nullptr; }));
        return *sessions().find(QStringLiteral("box"));
    }
    SessionsViewModel& sessions() { return m_workbench->sessions; }
    void click(const char* name) {
        QTest::mouseClick(child<QPushButton>(PageId::Sessions, name), Qt::LeftButton);
    }
    QString label(const char* name) { return child<QLabel>(PageId::Sessions, name)->text(); }
    /// The dialog that is asking; null when none comes.
    PromptDialog* prompt() {
        PromptDialog* found = nullptr;
        EXPECT_TRUE(waitFor([&] {
            for (auto* one : m_window->findChildren<PromptDialog*>())
                if (one->isVisible()) found = one;
            return found != nullptr;
        }));
        return found;
    }
    bool asksNothing() { return !sessions().prompts().current(); }

    piper::test::SshFiles m_ssh;
};

TEST_F(SessionsPageTest, AKeyPressesNoHiddenButton) {
    ASSERT_EQ(sessions().current().state(), State::Open);
    QTest::keySequence(m_window.get(), QKeySequence(QStringLiteral("Ctrl+Return")));
    EXPECT_EQ(sessions().current().state(), State::Open) << "this machine is not disconnected";
}

TEST_F(SessionsPageTest, ASessionIsAddedFromTheForm) {
    QTest::keySequence(m_window.get(), QKeySequence(QStringLiteral("Ctrl+N")));
    auto* form = m_window->findChild<QDialog*>(QStringLiteral("session_form"));
    ASSERT_NE(form, nullptr);
    const auto field = [&](const char* name) {
        return form->findChild<QLineEdit*>(QString::fromLatin1(name));
    };
    QTest::keyClicks(field("form.name"), QStringLiteral("my cluster"));
    QTest::keyClicks(field("form.host"), QStringLiteral("me@login.example"));
    form->findChild<QComboBox*>()->setCurrentText(QStringLiteral("sbatch"));
    QTest::keyClicks(field("form.partition"), QStringLiteral("gpu"));
    EXPECT_FALSE(field("form.hosts")->isVisible());
    QTest::keyClick(field("form.host"), Qt::Key_Return);
    auto* fault = form->findChild<QLabel*>(QStringLiteral("form.fault"));
    ASSERT_TRUE(waitFor([&] { return fault->isVisible(); }));
    EXPECT_THAT(fault->text().toStdString(), HasSubstr("'my cluster' is no name"));
    field("form.name")->setText(QStringLiteral("cluster"));
    QTest::mouseClick(form->findChild<QPushButton*>(QStringLiteral("form.add")), Qt::LeftButton);
    ASSERT_TRUE(waitFor([&] { return sessions().find(QStringLiteral("cluster")) != nullptr; }));
    EXPECT_THAT(sessions().dump().toStdString(),
                HasSubstr("* cluster [not connected] me@login.example · ranks by sbatch · "
                          "partition gpu\n"));
    const auto stored = SessionStore(m_directory.path() / "sessions.json").find("cluster");
    ASSERT_TRUE(stored.ok()) << stored.error().text();
    EXPECT_EQ(stored->launch.partition, "gpu");
    EXPECT_EQ(child<QListWidget>(PageId::Sessions, "sessions.list")->count(), 2);
}

TEST_F(SessionsPageTest, AnUnknownHostKeyIsShownAndTheUserDecides) {
    const auto server = m_ssh.serverNamedHost();
    m_ssh.write("known_hosts", "");
    SessionViewModel& box = addBox();
    click("session.connect");
    PromptDialog* dialog = prompt();
    ASSERT_NE(dialog, nullptr);
    const QString shown = dialog->findChild<QLabel*>(QStringLiteral("prompt.fingerprint"))->text();
    EXPECT_THAT(shown.toStdString(), HasSubstr("ssh-ed25519\nSHA256:"));
    QTest::keyClick(dialog, Qt::Key_Return);  // the default is not to connect
    ASSERT_TRUE(waitFor([&] { return box.state() == State::Failed; }));
    const std::string fingerprint = shown.section(u'\n', 1).toStdString();
    EXPECT_THAT(label("session.fault").toStdString(), HasSubstr(fingerprint));
    EXPECT_EQ(piper::test::readText(m_ssh.path("known_hosts")), "");

    click("session.connect");
    dialog = prompt();
    ASSERT_NE(dialog, nullptr);
    QTest::mouseClick(dialog->findChild<QPushButton*>(QStringLiteral("prompt.accept")),
                      Qt::LeftButton);
    ASSERT_TRUE(waitFor([&] { return box.state() == State::Open && !box.busy(); }));
    EXPECT_THAT(piper::test::readText(m_ssh.path("known_hosts")), HasSubstr("ssh-ed25519"));
    EXPECT_TRUE(asksNothing());
}

TEST_F(SessionsPageTest, AChangedHostKeyIsRefusedAndNobodyIsAsked) {
    const auto server = m_ssh.serverNamedHost();
    server->stop();
    server->newHostKey();
    server->start();
    SessionViewModel& box = addBox();
    click("session.connect");
    ASSERT_TRUE(waitFor([&] { return box.state() == State::Failed; }));
    EXPECT_TRUE(m_window->findChildren<PromptDialog*>().isEmpty());
    const std::string fault = label("session.fault").toStdString();
    EXPECT_THAT(fault, HasSubstr("offered: ssh-ed25519 SHA256:"));
    EXPECT_THAT(fault, HasSubstr("known:   ssh-ed25519 SHA256:"));
    EXPECT_THAT(label("session.hint").toStdString(), HasSubstr("ssh-keygen -f"));
    click("session.copy");
    EXPECT_THAT(QApplication::clipboard()->text().toStdString(), HasSubstr("ssh-keygen -f"));
}

TEST_F(SessionsPageTest, TheDiscoveredClusterBecomesThePlans) {
    const auto server = m_ssh.serverNamedHost();
    SessionViewModel& box = addBox();
    QTest::keySequence(m_window.get(), QKeySequence(QStringLiteral("Ctrl+Return")));
    ASSERT_TRUE(waitFor([&] { return box.cluster() || box.state() == State::Failed; }));
    const std::string all = box.dump().toStdString();
    EXPECT_THAT(all, HasSubstr("box [connected] host · ranks by mpirun"));
    EXPECT_THAT(all, HasSubstr("System: "));
    EXPECT_THAT(all, HasSubstr("mpirun: "));
    auto* picture = child<ClusterPicture>(PageId::Sessions, "session.picture");
    EXPECT_THAT(picture->accessibleDescription().toStdString(), HasSubstr("1 × "));
    EXPECT_GT(picture->height(), 40);
    click("session.use_cluster");
    EXPECT_EQ(m_window->currentPage(), PageId::Plan);
    EXPECT_EQ(m_workbench->plan.plan().cluster.name, box.cluster()->name);
    m_window->showPage(PageId::Sessions);
    click("session.test");
    ASSERT_TRUE(waitFor([&] { return !box.note().isEmpty(); }));
    EXPECT_THAT(label("session.note").toStdString(),
                HasSubstr("Our directory there: " + m_ssh.path("there").string()));
    click("session.connect");  // lets go
    EXPECT_EQ(box.state(), State::Closed);
    EXPECT_EQ(box.session(), nullptr);
}

const std::vector<MiniSshServer::Round> kTwoFactors = {
    {"Cluster login", "Type both:", {"Password: ", "Colour of the day?"}, {"secret", "blue"}},
    {"Second factor", "", {"Code: "}, {"123456"}}};

TEST_F(SessionsPageTest, SeveralQuestionsAreAnsweredByKeyboard) {
    const MiniSshServer server(m_ssh.path("mini"), {kTwoFactors, {}, {}});
    m_ssh.write("known_hosts", server.knownHostsLine());
    m_ssh.write("config", m_ssh.hostBlock("host", server.port()));
    SessionViewModel& box = addBox();
    click("session.connect");
    PromptDialog* dialog = prompt();
    ASSERT_NE(dialog, nullptr);
    const auto answer = [&](int i) {
        return dialog->findChild<QLineEdit*>(QStringLiteral("prompt.answer.%1").arg(i));
    };
    EXPECT_EQ(answer(0)->echoMode(), QLineEdit::Password);
    EXPECT_EQ(answer(1)->echoMode(), QLineEdit::Normal);
    QTest::keyClicks(answer(0), QStringLiteral("secret"));
    QTest::keyClick(answer(0), Qt::Key_Tab);
    QTest::keyClicks(answer(1), QStringLiteral("blue"));
    QTest::keyClick(answer(1), Qt::Key_Return);
    EXPECT_EQ(answer(0)->text(), QString()) << "nothing of an answer stays in its field";
    const std::uint64_t first = dialog->promptId();
    ASSERT_TRUE(waitFor([&] {
        dialog = m_window->findChild<PromptDialog*>();
        return dialog != nullptr && dialog->promptId() != first && dialog->isVisible();
    }));
    QTest::keyClicks(answer(0), QStringLiteral("123456"));
    QTest::keyClick(answer(0), Qt::Key_Return);
    ASSERT_TRUE(waitFor([&] { return box.state() == State::Open; }));
}

TEST_F(SessionsPageTest, ClosingTheWindowAnswersWhatIsAsked) {
    const MiniSshServer server(m_ssh.path("mini"), {kTwoFactors, {}, {}});
    m_ssh.write("known_hosts", server.knownHostsLine());
    m_ssh.write("config", m_ssh.hostBlock("host", server.port()));
    SessionViewModel& box = addBox();
    click("session.connect");
    ASSERT_NE(prompt(), nullptr);
    EXPECT_TRUE(m_window->close());
    ASSERT_TRUE(waitFor([&] { return box.state() == State::Failed; }));
    EXPECT_EQ(box.fault()->code, ErrorCode::Cancelled);
    EXPECT_TRUE(asksNothing());
}

TEST_F(SessionsPageTest, AHostThatSaysNothingIsLetGoAtOnce) {
    // Takes connections and never greets.
    const int silent = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    ASSERT_EQ(::bind(silent, reinterpret_cast<sockaddr*>(&address), length), 0);
    ASSERT_EQ(::listen(silent, 4), 0);
    ASSERT_EQ(::getsockname(silent, reinterpret_cast<sockaddr*>(&address), &length), 0);
    m_ssh.write("config", m_ssh.hostBlock("host", ntohs(address.sin_port)));
    SessionViewModel& box = addBox();
    click("session.connect");
    QTest::qWait(200);
    ASSERT_EQ(box.state(), State::Opening);
    QElapsedTimer clock;
    clock.start();
    click("session.connect");
    EXPECT_EQ(box.state(), State::Closed);
    EXPECT_TRUE(waitFor([&] { return m_executor.idle(); }, 5000)) << "its thread ended too";
    EXPECT_LT(clock.elapsed(), 4000);
    EXPECT_FALSE(box.fault());
    ::close(silent);
}

TEST_F(SessionsPageTest, ASessionIsForgottenOnConfirmation) {
    m_ssh.write("config", m_ssh.hostBlock("host", 1));
    addBox();
    const auto confirm = [&](const QString& button) {
        QTest::keySequence(m_window.get(), QKeySequence(QStringLiteral("Ctrl+Delete")));
        QMessageBox* box = nullptr;
        ASSERT_TRUE(waitFor([&] {
            box = m_window->findChild<QMessageBox*>(QStringLiteral("forget"));
            return box != nullptr && box->isVisible();
        }));
        for (QAbstractButton* one : box->buttons())
            if (one->text().remove(u'&') == button) one->click();
        ASSERT_TRUE(waitFor([&] {
            return m_window->findChild<QMessageBox*>(QStringLiteral("forget")) == nullptr;
        }));
        ASSERT_TRUE(settled());
    };
    confirm(QStringLiteral("Cancel"));
    EXPECT_EQ(sessions().all().size(), 2U);
    confirm(QStringLiteral("Forget"));
    EXPECT_EQ(sessions().all().size(), 1U);
    EXPECT_FALSE(SessionStore(m_directory.path() / "sessions.json").find("box").ok());
}

}  // namespace
}  // namespace piper::ui
