// SPDX-License-Identifier: GPL-3.0-or-later
#include <gtest/gtest.h>

#include <QGuiApplication>
#include <algorithm>

#include "tests/support/paths.h"
#include "ui/models/command_palette_model.h"
#include "ui/models/file_io.h"
#include "ui/models/timeline_keys.h"
#include "ui/models/tour.h"

namespace piper::ui {
namespace {

std::vector<int> placesOf(const char* pattern, const char* text) {
    const auto match = fuzzyMatch(QString::fromLatin1(pattern), QString::fromLatin1(text));
    return match ? match->positions : std::vector<int>{-1};
}

TEST(FuzzyMatch, FindsLettersInTheirOrderAndPrefersWordStartsAndRows) {
    EXPECT_EQ(placesOf("pin", "Plan: Pin this plan"), (std::vector<int>{6, 7, 8}));
    EXPECT_EQ(placesOf("ptp", "Plan: Pin this plan"), (std::vector<int>{0, 10, 15}))
        << "the starts of words";
    EXPECT_EQ(placesOf("PLAN pin", "Plan: Pin this plan"), (std::vector<int>{0, 1, 2, 3, 6, 7, 8}));
    EXPECT_EQ(placesOf("nip", "Pin"), std::vector<int>{-1});
    EXPECT_EQ(placesOf("", "Pin"), std::vector<int>{});
    EXPECT_EQ(placesOf("pin", ""), std::vector<int>{-1});
    EXPECT_GT(fuzzyMatch(QStringLiteral("ep"), QStringLiteral("Set EP"))->score,
              fuzzyMatch(QStringLiteral("ep"), QStringLiteral("Set Experts"))->score);
}

/// Actions belong to an application, though to no screen.
struct Application {
    int count = qputenv("QT_QPA_PLATFORM", "offscreen") ? 1 : 0;
    char name[8] = "actions";
    char* names[2] = {name, nullptr};
    QGuiApplication application{count, names};
};

struct Commands : Application {
    Commands() {
        add("Plan", "Pin this plan", "Ctrl+P");
        add("Plan", "Undo", "Ctrl+Z");
        add("Explore", "Filter the plans", "Ctrl+F");
        add("Window", "Dark theme", "");
    }
    void add(const char* section, const char* text, const char* keys) {
        const QString name = QString::fromLatin1(text);
        catalogue.add({QString::fromLatin1(section),
                       name,
                       {QKeySequence(QString::fromLatin1(keys))},
                       [this, name] { done << name; },
                       [this, name] { return name != impossible; }});
    }
    [[nodiscard]] std::string found(const char* pattern) {
        CommandPaletteModel model(catalogue);
        model.setPattern(QString::fromLatin1(pattern));
        QString out;
        for (int row = 0; row < model.rowCount(); ++row)
            out += model.index(row).data(Qt::AccessibleTextRole).toString() + u'\n';
        return out.toStdString();
    }
    ActionCatalogue catalogue;
    QStringList done;
    QString impossible;
};

TEST(CommandPalette, ShowsWhatIsFoundBestFirstWithItsKeys) {
    Commands commands;
    EXPECT_EQ(commands.found(""),
              "Plan: Pin this plan, Ctrl+P\nPlan: Undo, Ctrl+Z\nExplore: Filter the plans, Ctrl+F\n"
              "Window: Dark theme\n");
    EXPECT_EQ(commands.found("filt"), "Explore: Filter the plans, Ctrl+F\n");
    EXPECT_EQ(commands.found("undo"), "Plan: Undo, Ctrl+Z\n");
    EXPECT_EQ(commands.found("xyz"), "");
    commands.impossible = QStringLiteral("Pin this plan");
    EXPECT_EQ(
        commands.found("plan"),
        "Plan: Undo, Ctrl+Z\nExplore: Filter the plans, Ctrl+F\nPlan: Pin this plan, Ctrl+P\n")
        << "what is not possible now stands last";
}

TEST(CommandPalette, DoesWhatIsPossibleAndNothingElse) {
    Commands commands;
    CommandPaletteModel model(commands.catalogue);
    model.setPattern(QStringLiteral("dark"));
    model.run(0);
    EXPECT_EQ(commands.done, QStringList{QStringLiteral("Dark theme")});
    commands.impossible = QStringLiteral("Dark theme");
    model.run(0);
    model.run(1);
    EXPECT_EQ(commands.done.size(), 1);
}

class Keys : public ::testing::Test {
protected:
    [[nodiscard]] QString file() const {
        return QString::fromStdString((m_directory.path() / "settings" / "window.json").string());
    }
    piper::test::TemporaryDirectory m_directory;
    ManualExecutor m_executor;
};

constexpr QKeyCombination key(Qt::Key key, Qt::KeyboardModifiers modifiers = {}) {
    return QKeyCombination(modifiers, key);
}

TEST_F(Keys, EveryKeyDoesOneThing) {
    Preferences preferences(m_executor, {});
    const TimelineKeys keys(preferences);
    QList<QKeySequence> all;
    for (const TimelineCommandInfo& info : timelineCommands()) {
        ASSERT_FALSE(keys.keys(info.command).isEmpty()) << info.id;
        all << keys.keys(info.command);
        for (const QKeySequence& sequence : keys.keys(info.command))
            EXPECT_EQ(keys.find(sequence[0]), info.command) << info.id;
    }
    for (const QKeySequence& sequence : all)
        EXPECT_EQ(all.count(sequence), 1) << sequence.toString().toStdString();
    // "?" is Shift and another key on most keyboards, and a sign of its own on some.
    EXPECT_EQ(keys.find(meantKey(Qt::Key_Question, Qt::ShiftModifier)), TimelineCommand::Help);
    EXPECT_EQ(keys.find(meantKey(Qt::Key_M, Qt::ShiftModifier)), TimelineCommand::ClearMarks);
    EXPECT_FALSE(keys.find(key(Qt::Key_J)));
}

TEST_F(Keys, ANewKeyReplacesTheOldOnesAndIsRemembered) {
    Preferences preferences(m_executor, file());
    TimelineKeys keys(preferences);
    EXPECT_EQ(keys.bind(TimelineCommand::ZoomIn, key(Qt::Key_J)), QString());
    EXPECT_EQ(keys.bind(TimelineCommand::Later, key(Qt::Key_L, Qt::ControlModifier)), QString());
    keys.clear(TimelineCommand::Pin);
    m_executor.runAll();
    Preferences again(m_executor, file());
    ASSERT_TRUE(again.load().ok());
    const TimelineKeys after(again);
    EXPECT_EQ(after.find(key(Qt::Key_J)), TimelineCommand::ZoomIn);
    EXPECT_FALSE(after.find(key(Qt::Key_W)));
    EXPECT_EQ(after.find(key(Qt::Key_L, Qt::ControlModifier)), TimelineCommand::Later);
    EXPECT_FALSE(after.find(key(Qt::Key_P)));
    EXPECT_EQ(after.keysText(TimelineCommand::Pin), QString());
    bool told = false;
    for (const auto& [keys_text, what] : after.help()) told = told || keys_text == "J";
    EXPECT_TRUE(told) << "the help on the canvas shows the bound key";
    EXPECT_TRUE(after.hint().contains(QStringLiteral("J S zoom")));
}

TEST_F(Keys, AKeyThatIsTakenIsRefusedByName) {
    Preferences preferences(m_executor, {});
    TimelineKeys keys(preferences);
    keys.setReserved({{QKeySequence(QStringLiteral("Ctrl+P")), QStringLiteral("Pin this plan")},
                      {QKeySequence(QStringLiteral("Ctrl+Z")), QStringLiteral("Undo")}});
    EXPECT_TRUE(
        keys.bind(TimelineCommand::ZoomIn, key(Qt::Key_M)).contains(QStringLiteral("mark")));
    EXPECT_TRUE(keys.bind(TimelineCommand::ZoomIn, key(Qt::Key_P, Qt::ControlModifier))
                    .contains(QStringLiteral("Pin this plan")));
    EXPECT_EQ(keys.find(key(Qt::Key_W)), TimelineCommand::ZoomIn) << "nothing changed";
    // On the canvas Ctrl+Z has always been the zoom's.
    EXPECT_EQ(keys.bind(TimelineCommand::UndoZoom, key(Qt::Key_Z, Qt::ControlModifier)), QString());
    // A first key that went elsewhere stays there.
    keys.clear(TimelineCommand::Mark);
    EXPECT_EQ(keys.bind(TimelineCommand::ZoomIn, key(Qt::Key_M)), QString());
    keys.reset(TimelineCommand::Mark);
    EXPECT_TRUE(keys.keys(TimelineCommand::Mark).isEmpty());
    keys.resetAll();
    EXPECT_EQ(keys.find(key(Qt::Key_M)), TimelineCommand::Mark);
}

TEST_F(Keys, ABrokenFileIsNamedAndForgotten) {
    ASSERT_TRUE(Preferences(m_executor, file()).load().ok()) << "none is no fault";
    const QString path = QString::fromStdString((m_directory.path() / "window.json").string());
    for (const char* broken : {"[]", "{", R"({"format_version": 1, "values": {"theme": 3}})",
                               R"({"values": {}})", R"({"format_version": "1", "values": {}})"}) {
        ASSERT_TRUE(writeFile(path, broken).ok());
        Preferences preferences(m_executor, path);
        const Status status = preferences.load();
        ASSERT_FALSE(status.ok()) << broken;
        EXPECT_NE(status.error().text().find("window.json"), std::string::npos) << broken;
        EXPECT_FALSE(preferences.holds(QStringLiteral("theme")));
    }
    ASSERT_TRUE(
        writeFile(path, R"({"format_version": 1, "values": {"timeline_keys.mark": "X+Y"}})").ok());
    Preferences preferences(m_executor, path);
    ASSERT_TRUE(preferences.load().ok());
    EXPECT_EQ(TimelineKeys(preferences).find(key(Qt::Key_M)), TimelineCommand::Mark);
}

TEST_F(Keys, TheTourGoesThroughItsStepsAndComesByItselfOnce) {
    Preferences preferences(m_executor, file());
    Tour tour(preferences);
    EXPECT_FALSE(tour.seen());
    tour.next();
    EXPECT_FALSE(tour.running()) << "it was not started";
    tour.start();
    QStringList pages;
    for (; tour.running(); tour.next()) pages << QString::fromLatin1(tour.step().page);
    EXPECT_EQ(pages.join(u' '), QStringLiteral("plan explore schedule runs export"));
    m_executor.runAll();
    Preferences again(m_executor, file());
    ASSERT_TRUE(again.load().ok());
    Tour second(again);
    EXPECT_TRUE(second.seen());
    second.start();
    second.next();
    second.back();
    EXPECT_EQ(second.at(), 0);
    second.end();
    EXPECT_FALSE(second.running());
}

}  // namespace
}  // namespace piper::ui
