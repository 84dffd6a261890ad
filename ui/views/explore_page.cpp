// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/explore_page.h"

#include <QComboBox>
#include <QHeaderView>
#include <QItemSelectionModel>
#include <QLineEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QSplitter>
#include <QTabWidget>
#include <QTableView>
#include <QVBoxLayout>
#include <algorithm>

#include "ui/models/model_card.h"
#include "ui/models/plans_filter_model.h"
#include "ui/models/text_format.h"
#include "ui/plots/plans_plot.h"
#include "ui/views/curves_panel.h"
#include "ui/views/heat_map_panel.h"
#include "ui/views/widgets.h"

namespace piper::ui {
namespace {

constexpr std::size_t kShownPlans = 200;
constexpr int kMeasuredRows = 50;  ///< for the widths of columns

struct ObjectiveName {
    Objective objective;
    const char* label;
};
constexpr ObjectiveName kObjectives[] = {{Objective::Mfu, "MFU"},
                                         {Objective::TokensPerSecond, "tokens per second"},
                                         {Objective::MemoryHeadroom, "memory headroom"}};

}  // namespace

ExplorePage::ExplorePage(Workbench& workbench, QWidget* parent)
    : QWidget(parent),
      m_workbench(workbench),
      m_filter(new PlansFilterModel(workbench.search.plans(), this)) {
    auto* page = makePageLayout(this, QStringLiteral("Explore"));
    page->addWidget(makeControls());
    auto* split = new QSplitter(Qt::Vertical, this);
    split->addWidget(makePlans());
    split->addWidget(makeBelow());
    split->setStretchFactor(0, 3);
    split->setStretchFactor(1, 3);
    page->addWidget(split, 1);

    connect(&workbench.search, &SearchViewModel::changed, this, &ExplorePage::take);
    connect(&workbench.search, &SearchViewModel::answered, this,
            [this] { answer(m_workbench.search.whyNotText()); });
    connectPlot();
    takePlans();
    take();
}

/// The table with the line that narrows it down.
QWidget* ExplorePage::makePlans() {
    auto* widget = new QWidget(this);
    auto* layout = new QVBoxLayout(widget);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(4);
    auto* line = new QHBoxLayout;
    m_filter_text = new QLineEdit(widget);
    m_filter_text->setObjectName(QStringLiteral("filter"));
    m_filter_text->setAccessibleName(QStringLiteral("Filter of plans"));
    m_filter_text->setPlaceholderText(
        QStringLiteral("Filter: pp<=4 ep=8 memory<70 mfu>=40 interleaved"));
    m_filter_text->setClearButtonEnabled(true);
    m_filter_text->setToolTip(QStringLiteral(
        "Words that all must hold. Columns: rank, mfu, bubble and exposed in percent, step in "
        "seconds, tokens, memory in GiB, tp, cp, pp, vpp, ep, dp, micro, zero; other words are "
        "looked for in schedule, recompute and bottleneck."));
    m_filter_note = makeLabel({}, "faint", widget);
    m_filter_note->setObjectName(QStringLiteral("filter.note"));
    line->addWidget(m_filter_text, 3);
    line->addWidget(m_filter_note, 4);
    layout->addLayout(line);
    m_plans = makeTable(m_filter, widget);
    m_plans->setObjectName(QStringLiteral("plans"));
    m_plans->setSortingEnabled(true);
    m_plans->horizontalHeader()->setResizeContentsPrecision(kMeasuredRows);
    m_plans->sortByColumn(RankedPlans::Rank, Qt::AscendingOrder);
    layout->addWidget(m_plans, 1);
    connect(m_filter_text, &QLineEdit::textChanged, this, &ExplorePage::applyFilter);
    connect(m_plans, &QTableView::activated, this, &ExplorePage::choose);
    return widget;
}

/// Views of the plans and curves around them, and the line that asks why not.
QWidget* ExplorePage::makeBelow() {
    auto* widget = new QWidget(this);
    auto* layout = new QVBoxLayout(widget);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(4);
    m_tabs = new QTabWidget(widget);
    m_tabs->setObjectName(QStringLiteral("explore.tabs"));
    m_tabs->setDocumentMode(true);
    auto* points = new QSplitter(Qt::Horizontal, m_tabs);
    m_plot = new PlansPlot(points);
    points->addWidget(m_plot);
    points->addWidget(makeReasons());
    points->setStretchFactor(0, 2);
    points->setStretchFactor(1, 3);
    m_tabs->addTab(points, QStringLiteral("&Pareto and reasons"));
    auto* heat = new HeatMapPanel(m_workbench.search.heatMap(), m_tabs);
    m_tabs->addTab(heat, QStringLiteral("&Heat map"));
    auto* curves = new CurvesPanel(m_workbench, m_tabs);
    m_tabs->addTab(curves, QStringLiteral("&Capacity and sensitivity"));
    layout->addWidget(m_tabs, 1);
    layout->addWidget(makeWhyNot());
    connect(heat, &HeatMapPanel::planChosen, this, [this](int row) {
        showRow(row);
        takeRow(row);
        sayTaken();
    });
    connect(heat, &HeatMapPanel::whyNotAsked, this, [this](const QString& asked) {
        m_why_not->setText(asked);
        askWhyNot();
    });
    connect(curves, &CurvesPanel::planTaken, this, &ExplorePage::sayTaken);
    return widget;
}

QWidget* ExplorePage::makeWhyNot() {
    auto* widget = new QWidget(this);
    auto* layout = new QVBoxLayout(widget);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(4);
    m_why_not = new QLineEdit(widget);
    m_why_not->setObjectName(QStringLiteral("why_not"));
    m_why_not->setAccessibleName(QStringLiteral("Why not this plan"));
    m_why_not->setPlaceholderText(QStringLiteral("Why not … tp=8 pp=8 ep=8 recompute=full"));
    layout->addWidget(m_why_not);
    m_answer = makeLabel({}, "plain", widget);
    m_answer->setObjectName(QStringLiteral("why_not.answer"));
    m_answer->setWordWrap(true);
    m_answer->setTextInteractionFlags(Qt::TextSelectableByMouse);
    m_answer->hide();
    layout->addWidget(m_answer);
    connect(m_why_not, &QLineEdit::returnPressed, this, &ExplorePage::askWhyNot);
    return widget;
}

void ExplorePage::askWhyNot() {
    if (m_workbench.plan.hasPlan())
        m_workbench.search.askWhyNot(m_workbench.plan.plan(), m_why_not->text());
}

void ExplorePage::answer(const QString& said) {
    m_answer->setText(said);
    m_answer->setVisible(!said.isEmpty());
}

void ExplorePage::takeRow(int row) {
    m_workbench.plan.setPlan(m_workbench.search.plans().planAt(row).plan);
}

void ExplorePage::sayTaken() {
    answer(QStringLiteral("The sliders stand at %1. Ctrl+Z takes that back, Ctrl+2 shows them.")
               .arg(layoutText(m_workbench.plan.plan())));
}

/// Where that plan of the search stands in the table.
void ExplorePage::showRow(int row) {
    const int at = m_filter->rowOf(row);
    if (at < 0) return;  // filtered away
    m_plans->selectRow(at);
    m_plans->scrollTo(m_filter->index(at, 0));
}

QWidget* ExplorePage::makeReasons() {
    auto* widget = new QWidget(this);
    auto* layout = new QVBoxLayout(widget);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(4);
    layout->addWidget(makeLabel(QStringLiteral("Why the others lost: one example of each reason"),
                                "section", widget));
    m_rejections = makeTable(&m_workbench.search.rejections(), widget);
    m_rejections->setObjectName(QStringLiteral("rejections"));
    layout->addWidget(m_rejections, 1);
    return widget;
}

/// Table and plot show the same plans and the same current one.
void ExplorePage::connectPlot() {
    RankedPlansModel& plans = m_workbench.search.plans();
    // The filter is the first to take other plans and asks for the chosen one.
    connect(&plans, &QAbstractItemModel::modelAboutToBeReset, this, [this] { m_chosen = -1; });
    connect(&plans, &QAbstractItemModel::modelReset, this, &ExplorePage::takePlans);
    connect(m_filter, &PlansFilterModel::shownChanged, this, [this] {
        m_plot->setShown(m_filter->shownRows());
        showRow(m_chosen);
    });
    connect(m_plot, &PlansPlot::brushed, this, [this](const std::set<int>& rows) {
        m_filter->setBrushed(rows);
        m_filter_note->setText(
            QStringLiteral("%1 plans brushed; a click beside the points shows all")
                .arg(rows.size()));
    });
    connect(m_plot, &PlansPlot::cleared, this, [this] {
        m_filter->setBrushed({});
        applyFilter();
    });
    connect(m_plot, &PlansPlot::chosen, this, &ExplorePage::showRow);
    connect(m_plans->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
            [this](const QModelIndex& current) {
                m_chosen = current.isValid() ? m_filter->planRow(current.row()) : -1;
                m_plot->setCurrent(m_chosen);
            });
}

void ExplorePage::applyFilter() {
    const QString fault = m_filter->setText(m_filter_text->text());
    const int shown = m_filter->rowCount(), all = m_workbench.search.plans().rowCount();
    m_filter_note->setText(!fault.isEmpty() ? fault
                           : shown < all    ? QStringLiteral("%1 of %2 plans").arg(shown).arg(all)
                                            : QString());
}

void ExplorePage::takePlans() {
    m_plot->setPlans(m_workbench.search.plans().sharedPlans());
    m_plot->setShown(m_filter->shownRows());
}

QWidget* ExplorePage::makeControls() {
    auto* bar = new QWidget(this);
    auto* layout = new QHBoxLayout(bar);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(kSpacing);
    m_objective = new QComboBox(bar);
    m_objective->setAccessibleName(QStringLiteral("Rank by"));
    for (const ObjectiveName& o : kObjectives)
        m_objective->addItem(QString::fromLatin1(o.label), static_cast<int>(o.objective));
    m_search = new QPushButton(QStringLiteral("Search"), bar);
    m_search->setObjectName(QStringLiteral("search"));
    m_cancel = new QPushButton(QStringLiteral("Cancel"), bar);
    m_cancel->setObjectName(QStringLiteral("search.cancel"));
    m_progress = new QProgressBar(bar);
    m_progress->setRange(0, 1000);
    m_progress->setTextVisible(false);
    m_progress->setFixedSize(160, 10);
    m_status = makeLabel({}, "faint", bar);
    m_status->setObjectName(QStringLiteral("search.status"));
    layout->addWidget(new QLabel(QStringLiteral("Rank by"), bar));
    layout->addWidget(m_objective);
    layout->addWidget(m_search);
    layout->addWidget(m_cancel);
    layout->addWidget(m_progress);
    layout->addWidget(m_status, 1);
    connect(m_search, &QPushButton::clicked, this, &ExplorePage::startSearch);
    connect(m_cancel, &QPushButton::clicked, &m_workbench.search, &SearchViewModel::cancel);
    return bar;
}

void ExplorePage::startSearch() {
    if (!m_workbench.plan.hasPlan()) return;
    const auto objective = static_cast<Objective>(m_objective->currentData().toInt());
    m_workbench.search.start(m_workbench.plan.plan(), {}, objective, kShownPlans);
}

void ExplorePage::take() {
    const SearchViewModel& search = m_workbench.search;
    m_status->setText(search.status());
    m_search->setEnabled(!search.running() && m_workbench.plan.hasPlan());
    m_cancel->setEnabled(search.running());
    m_progress->setVisible(search.running());
    m_progress->setValue(static_cast<int>(search.fraction() * 1000));
    if (!search.running() && m_filter->rowCount() > 0) {
        m_plans->resizeColumnsToContents();
        m_rejections->resizeColumnsToContents();
        // The reason is what is read: the layout's end is in its tooltip.
        m_rejections->setColumnWidth(RejectionsModel::Layout,
                                     std::min(m_rejections->columnWidth(RejectionsModel::Layout),
                                              m_rejections->width() / 4));
    }
}

void ExplorePage::choose(const QModelIndex& index) {
    takeRow(m_filter->planRow(index.row()));
    Q_EMIT planChosen();
}

}  // namespace piper::ui
