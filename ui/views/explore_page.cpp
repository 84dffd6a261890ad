// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/explore_page.h"

#include <QComboBox>
#include <QHeaderView>
#include <QProgressBar>
#include <QPushButton>
#include <QSortFilterProxyModel>
#include <QSplitter>
#include <QTableView>
#include <QVBoxLayout>

#include "ui/views/widgets.h"

namespace piper::ui {
namespace {

constexpr std::size_t kShownPlans = 200;

struct ObjectiveName {
    Objective objective;
    const char* label;
};
constexpr ObjectiveName kObjectives[] = {{Objective::Mfu, "MFU"},
                                         {Objective::TokensPerSecond, "tokens per second"},
                                         {Objective::MemoryHeadroom, "memory headroom"}};

}  // namespace

ExplorePage::ExplorePage(Workbench& workbench, QWidget* parent)
    : QWidget(parent), m_workbench(workbench), m_sorted(new QSortFilterProxyModel(this)) {
    auto* page = makePageLayout(this, QStringLiteral("Explore"));
    page->addWidget(makeControls());
    m_sorted->setSourceModel(&workbench.search.plans());
    m_sorted->setSortRole(Qt::UserRole);
    m_plans = makeTable(m_sorted, this);
    m_plans->setObjectName(QStringLiteral("plans"));
    m_plans->setSortingEnabled(true);
    m_plans->sortByColumn(RankedPlansModel::Rank, Qt::AscendingOrder);
    auto* rejections = makeTable(&workbench.search.rejections(), this);
    rejections->setObjectName(QStringLiteral("rejections"));

    auto* below = new QWidget(this);
    auto* below_layout = new QVBoxLayout(below);
    below_layout->setContentsMargins(0, 0, 0, 0);
    below_layout->addWidget(makeLabel(
        QStringLiteral("Why the others lost: one example of each reason"), "section", below));
    below_layout->addWidget(rejections);
    auto* split = new QSplitter(Qt::Vertical, this);
    split->addWidget(m_plans);
    split->addWidget(below);
    split->setStretchFactor(0, 3);
    split->setStretchFactor(1, 1);
    page->addWidget(split, 1);

    connect(&workbench.search, &SearchViewModel::changed, this, &ExplorePage::take);
    connect(m_plans, &QTableView::doubleClicked, this, &ExplorePage::choose);
    take();
}

QWidget* ExplorePage::makeControls() {
    auto* bar = new QWidget(this);
    auto* layout = new QHBoxLayout(bar);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(kSpacing);
    m_objective = new QComboBox(bar);
    for (const ObjectiveName& o : kObjectives)
        m_objective->addItem(QString::fromLatin1(o.label), static_cast<int>(o.objective));
    m_search = new QPushButton(QStringLiteral("Search"), bar);
    m_search->setObjectName(QStringLiteral("search"));
    m_cancel = new QPushButton(QStringLiteral("Cancel"), bar);
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
    if (!search.running() && m_sorted->rowCount() > 0) {
        m_plans->resizeColumnsToContents();
        for (auto* table : findChildren<QTableView*>(QStringLiteral("rejections")))
            table->resizeColumnsToContents();
    }
}

void ExplorePage::choose(const QModelIndex& index) {
    const int row = m_sorted->mapToSource(index).row();
    m_workbench.plan.setPlan(m_workbench.search.plans().planAt(row).plan);
    Q_EMIT planChosen();
}

}  // namespace piper::ui
