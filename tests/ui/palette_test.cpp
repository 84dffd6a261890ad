// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/command_palette.h"

#include <QLabel>
#include <QLineEdit>
#include <QListView>
#include <QMenu>
#include <QPushButton>
#include <QTableView>
#include <QTest>

#include "tests/ui/example_plan.h"
#include "tests/ui/window_fixture.h"
#include "ui/timeline/timeline_canvas.h"
#include "ui/views/key_dialog.h"
#include "ui/views/schedule_page.h"

namespace piper::ui {
namespace {

class Palette : public test::WindowTest {
protected:
    /// By its key, with the focus where it is.
    CommandPalette* openPalette() {
        QTest::keyClick(
            QApplication::focusWidget() != nullptr ? QApplication::focusWidget() : m_window.get(),
            Qt::Key_K, Qt::ControlModifier);
        auto* palette = qobject_cast<CommandPalette*>(QApplication::activeModalWidget());
        EXPECT_NE(palette, nullptr);
        return palette;
    }
};

TEST_F(Palette, DoesByKeyboardWhatIsTyped) {
    open(test::clusterPlan());
    CommandPalette* palette = openPalette();
    ASSERT_NE(palette, nullptr);
    QTest::keyClicks(palette->field(), QStringLiteral("goexpl"));
    QTest::keyClick(palette->field(), Qt::Key_Return);
    EXPECT_EQ(m_window->currentPage(), PageId::Explore);
    // In a line of text the key is still the palette's.
    child<QLineEdit>(PageId::Explore, "filter")->setFocus();
    QTest::qWait(0);
    palette = openPalette();
    ASSERT_NE(palette, nullptr);
    QTest::keyClicks(palette->field(), QStringLiteral("set ep"));
    EXPECT_EQ(palette->list()->currentIndex().data(Qt::DisplayRole).toString(),
              QStringLiteral("Plan: Set EP"))
        << palette->field()->text().toStdString();
    QTest::keyClick(palette->field(), Qt::Key_Return);
    EXPECT_EQ(m_window->currentPage(), PageId::Plan);
    ASSERT_NE(m_window->focusWidget(), nullptr);
    EXPECT_EQ(m_window->focusWidget()->objectName(), QStringLiteral("spin.ep"));
}

TEST_F(Palette, ArrowsChooseAndEscapeLeaves) {
    open(test::clusterPlan());
    CommandPalette* palette = openPalette();
    QTest::keyClick(palette->field(), Qt::Key_Down);
    QTest::keyClick(palette->field(), Qt::Key_Down);
    EXPECT_EQ(palette->list()->currentIndex().row(), 2);
    QTest::keyClick(palette->field(), Qt::Key_Return);
    EXPECT_EQ(m_window->currentPage(), PageId::Explore);
    QTest::qWait(0);
    palette = openPalette();
    QTest::keyClick(palette, Qt::Key_Escape);
    EXPECT_FALSE(palette->isVisible());
}

TEST_F(Palette, WhatIsNotPossibleIsShownAndNotDone) {
    open(test::clusterPlan());
    CommandPalette* palette = openPalette();
    QTest::keyClicks(palette->field(), QStringLiteral("plan undo"));
    const QModelIndex first = palette->list()->model()->index(0, 0);
    EXPECT_FALSE(first.data(CommandPaletteModel::PossibleRole).toBool());
    QTest::keyClick(palette->field(), Qt::Key_Return);
    EXPECT_TRUE(palette->isVisible());
}

TEST_F(Palette, EventsAreSearchedWhereThereIsALineForIt) {
    open(test::clusterPlan());
    const auto offers = [&](PageId page) {
        m_window->showPage(page);
        const ActionCatalogue& all = m_window->actions();
        for (std::size_t i = 0; i < all.size(); ++i)
            if (all.entry(i).text == QStringLiteral("Search by name")) return all.possible(i);
        ADD_FAILURE() << "no such command";
        return false;
    };
    EXPECT_TRUE(offers(PageId::Timeline));
    EXPECT_FALSE(offers(PageId::Schedule));
    EXPECT_FALSE(offers(PageId::Plan));
}

TEST_F(Palette, NoKeyDoesTwoThingsAndEveryEntryIsFoundByItsName) {
    open(test::clusterPlan());
    QList<QKeySequence> all;
    const ActionCatalogue& actions = m_window->actions();
    for (std::size_t i = 0; i < actions.size(); ++i) {
        all << actions.entry(i).keys;
        CommandPaletteModel model(actions);
        model.setPattern(actions.entry(i).section + u' ' + actions.entry(i).text);
        bool found = false;
        for (int row = 0; row < model.rowCount(); ++row)
            found = found || model.index(row).data(CommandPaletteModel::TextRole).toString() ==
                                 actions.entry(i).text;
        EXPECT_TRUE(found) << actions.entry(i).text.toStdString();
    }
    EXPECT_GT(all.size(), 15);
    for (const QKeySequence& key : all)
        EXPECT_EQ(all.count(key), 1) << key.toString().toStdString();
}

TEST_F(Palette, EveryEntryOfAPageHasItsButtonOrField) {
    open(test::clusterPlan());
    for (int page = 0; page < kNumPages; ++page) m_window->showPage(static_cast<PageId>(page));
    ASSERT_TRUE(settled());
    const ActionCatalogue& actions = m_window->actions();
    // Asking whether it is possible looks for the button; a name that is wrong would end here.
    for (std::size_t i = 0; i < actions.size(); ++i) {
        SCOPED_TRACE(actions.entry(i).text.toStdString());
        (void)actions.possible(i);
    }
    for (std::size_t i = 0; i < actions.size(); ++i) {
        if (!actions.entry(i).text.startsWith(QStringLiteral("Set "))) continue;
        actions.action(i)->trigger();
        ASSERT_NE(m_window->focusWidget(), nullptr) << actions.entry(i).text.toStdString();
        EXPECT_TRUE(m_window->focusWidget()->objectName().startsWith(QStringLiteral("spin.")))
            << actions.entry(i).text.toStdString();
    }
}

TEST_F(Palette, TheMenuHoldsTheSameActions) {
    open(test::clusterPlan());
    const QMenu* menu = m_window->findChild<QPushButton*>(QStringLiteral("menu"))->menu();
    std::size_t held = 0;
    for (const QAction* section : menu->actions())
        held += static_cast<std::size_t>(section->menu()->actions().size());
    EXPECT_EQ(held, m_window->actions().size());
}

TEST_F(Palette, TheTourShowsItsPagesAndWhatToTry) {
    open(test::clusterPlan());
    auto* bar = m_window->findChild<QWidget*>(QStringLiteral("tour"));
    EXPECT_FALSE(bar->isVisible());
    QTest::keyClick(m_window.get(), Qt::Key_F1);
    EXPECT_TRUE(bar->isVisible());
    EXPECT_EQ(m_window->currentPage(), PageId::Plan);
    for (const TourStep& step : tourSteps())
        EXPECT_NE(m_window->actions().find(QString::fromUtf8(step.section),
                                           QString::fromUtf8(step.action)),
                  nullptr)
            << step.action;
    auto* show = bar->findChild<QPushButton*>(QStringLiteral("tour.show"));
    QTest::mouseClick(show, Qt::LeftButton);
    EXPECT_EQ(m_workbench->pinned.numPins(), 1U);
    auto* next = bar->findChild<QPushButton*>(QStringLiteral("tour.next"));
    QTest::mouseClick(next, Qt::LeftButton);
    EXPECT_EQ(m_window->currentPage(), PageId::Explore);
    for (int i = 0; i < 4; ++i) QTest::mouseClick(next, Qt::LeftButton);
    EXPECT_FALSE(bar->isVisible());
    EXPECT_TRUE(m_workbench->tour.seen());
}

TEST_F(Palette, AKeyOfTheTimelineIsBoundInTheDialogAndWorksOnTheCanvas) {
    open(test::localPlan());
    m_window->showPage(PageId::Schedule);
    auto* canvas = pageAs<SchedulePage>(PageId::Schedule)->canvas();
    ASSERT_TRUE(settled());
    m_window->editKeys();
    auto* dialog = m_window->findChild<KeyDialog*>(QStringLiteral("keys"));
    ASSERT_NE(dialog, nullptr);
    dialog->table()->selectRow(static_cast<int>(TimelineCommand::ZoomIn));
    QTest::keyClick(dialog->field(), Qt::Key_M);
    auto* note = dialog->findChild<QLabel*>(QStringLiteral("keys.note"));
    EXPECT_TRUE(note->text().contains(QStringLiteral("mark"))) << note->text().toStdString();
    QTest::keyClick(dialog->field(), Qt::Key_J);
    dialog->close();
    const double span = canvas->viewport().span();
    QTest::keyClick(canvas, Qt::Key_W);
    EXPECT_EQ(canvas->viewport().span(), span);
    QTest::keyClick(canvas, Qt::Key_J);
    EXPECT_LT(canvas->viewport().span(), span);
    QTest::keyClick(canvas, Qt::Key_Z, Qt::ControlModifier);
    EXPECT_NEAR(canvas->viewport().span(), span, span * 1e-9) << "the zoom's, not the plan's";
    QTest::keyClick(canvas, Qt::Key_Question, Qt::ShiftModifier);
    EXPECT_TRUE(canvas->showsHelp());
}

}  // namespace
}  // namespace piper::ui
