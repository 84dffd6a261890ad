// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/plan_page.h"

#include <QDragEnterEvent>
#include <QFileDialog>
#include <QGridLayout>
#include <QHeaderView>
#include <QKeyEvent>
#include <QMimeData>
#include <QPushButton>
#include <QScrollArea>
#include <QScrollBar>
#include <QTabWidget>
#include <QTableView>
#include <QVBoxLayout>

#include "ui/models/text_format.h"
#include "ui/plots/stacked_memory_plot.h"
#include "ui/views/choice_control.h"
#include "ui/views/knob_control.h"
#include "ui/views/rank_map_view.h"
#include "ui/views/roofline_panel.h"
#include "ui/views/widgets.h"

namespace piper::ui {
namespace {

constexpr int kNumTiles = 6;
constexpr int kLeftWidth = 520;
constexpr int kWideEnough = 1200;  ///< for all tiles in one row

QString violationsText(const std::vector<Violation>& violations) {
    QString out;
    for (const Violation& v : violations) {
        out += QStringLiteral("• ") + text(v.message);
        if (!v.fix.empty()) {
            QStringList fixes;
            for (const std::string& fix : v.fix) fixes << text(fix);
            out += QStringLiteral(" — try ") + fixes.join(QStringLiteral(", "));
        }
        out += u'\n';
    }
    return out.trimmed();
}

}  // namespace

PlanPage::PlanPage(Workbench& workbench, QWidget* parent)
    : QWidget(parent),
      m_plan(workbench.plan),
      m_pinned(workbench.pinned),
      m_roofline(workbench.roofline) {
    setAcceptDrops(true);
    auto* page = makePageLayout(this, QStringLiteral("Plan"));
    page->addLayout(makeHead());
    m_tile_grid = new QGridLayout;
    m_tile_grid->setSpacing(kSpacing);
    for (int i = 0; i < kNumTiles; ++i) m_tiles.push_back(new MetricTile(this));
    arrangeTiles();
    page->addLayout(m_tile_grid);
    m_sentence = new TextLine(TextLine::Look::Plain, this);
    m_sentence->setObjectName(QStringLiteral("bottleneck"));
    page->addWidget(m_sentence);
    m_fault = new QLabel(this);
    m_fault->setObjectName(QStringLiteral("fault"));
    m_fault->setWordWrap(true);
    m_fault->setTextInteractionFlags(Qt::TextSelectableByMouse);
    page->addWidget(m_fault);
    auto* columns = new QHBoxLayout;
    columns->setSpacing(kSpacing);
    columns->addWidget(makeControls(), 1);
    columns->addWidget(makeAnswers(), 2);
    page->addLayout(columns, 1);

    connect(&m_plan, &PlanViewModel::planChanged, this, &PlanPage::takePlan);
    connect(&m_plan, &PlanViewModel::predictionChanged, this, &PlanPage::takePrediction);
    connect(&m_plan, &PlanViewModel::importFailed, this, &PlanPage::showFault);
    connect(&m_roofline, &RooflineViewModel::failed, this, &PlanPage::showFault);
    connect(&m_pinned, &PinnedPlansModel::pinsChanged, this, &PlanPage::takePins);
    takePlan();
    takePrediction();
    takePins();
}

/// Degrees in one line, and what acts on the plan as a whole.
QHBoxLayout* PlanPage::makeHead() {
    auto* line = new QHBoxLayout;
    m_layout_line = new TextLine(TextLine::Look::Faint, this);
    line->addWidget(m_layout_line, 1);
    const auto button = [&](const QString& label, const char* name, const QString& tip) {
        auto* out = new QPushButton(label, this);
        out->setObjectName(QString::fromLatin1(name));
        out->setToolTip(tip);
        line->addWidget(out);
        return out;
    };
    m_undo = button(QStringLiteral("Undo"), "undo",
                    QStringLiteral("The plan before the last change (Ctrl+Z)"));
    m_redo = button(QStringLiteral("Redo"), "redo",
                    QStringLiteral("The change that was taken back (Ctrl+Shift+Z)"));
    m_pin = button(QStringLiteral("Pin"), "pin",
                   QStringLiteral("Keeps this plan beside those to come, up to four (Ctrl+P)"));
    auto* open = button(QStringLiteral("Open plan…"), "open_plan",
                        QStringLiteral("A plan file of piperctl or of this window (Ctrl+O)"));
    connect(m_undo, &QPushButton::clicked, &m_plan, &PlanViewModel::undo);
    connect(m_redo, &QPushButton::clicked, &m_plan, &PlanViewModel::redo);
    connect(m_pin, &QPushButton::clicked, &m_pinned, &PinnedPlansModel::pin);
    connect(open, &QPushButton::clicked, this, &PlanPage::choosePlan);
    return line;
}

/// Sliders, lists and cards; what does not fit is scrolled to.
QWidget* PlanPage::makeControls() {
    auto* scroll = new QScrollArea(this);
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->setWidgetResizable(true);
    scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    auto* column = new QWidget(scroll);
    auto* left = new QVBoxLayout(column);
    left->setContentsMargins(0, 0, 6, 0);
    left->setSpacing(kSpacing);
    left->addWidget(makeKnobs());
    left->addWidget(makeCards());
    left->addStretch(1);
    scroll->setWidget(column);
    scroll->setMaximumWidth(kLeftWidth + scroll->verticalScrollBar()->sizeHint().width());
    scroll->setMinimumWidth(column->minimumSizeHint().width() +
                            scroll->verticalScrollBar()->sizeHint().width());
    return scroll;
}

QWidget* PlanPage::memoryPlot() const {
    return m_memory;
}

QWidget* PlanPage::makeCards() {
    auto* column = new QWidget(this);
    column->setMaximumWidth(kLeftWidth);
    auto* layout = new QVBoxLayout(column);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(kSpacing);
    m_model_card = new FactCard(QStringLiteral("Model"), column);
    auto* import = new QPushButton(QStringLiteral("Import config.json…"), m_model_card);
    import->setObjectName(QStringLiteral("import_model"));
    import->setToolTip(
        QStringLiteral("A Hugging Face config.json or a model file of ours; a file "
                       "dropped on this page does the same."));
    connect(import, &QPushButton::clicked, this, &PlanPage::chooseModel);
    m_model_card->addToTitle(import);
    m_cluster_card = new FactCard(QStringLiteral("Cluster"), column);
    layout->addWidget(m_model_card);
    layout->addWidget(m_cluster_card);
    return column;
}

QWidget* PlanPage::makeKnobs() {
    auto* card = new QFrame(this);
    card->setProperty("role", QStringLiteral("card"));
    card->setMaximumWidth(kLeftWidth);
    auto* column = new QVBoxLayout(card);
    column->setContentsMargins(12, 10, 12, 10);
    auto* grid = new QGridLayout;
    grid->setHorizontalSpacing(10);
    grid->setVerticalSpacing(2);
    grid->setColumnStretch(1, 1);
    column->addWidget(makeLabel(QStringLiteral("Parallel layout and batch"), "section", card));
    column->addLayout(grid);
    for (const KnobInfo& info : knobTable())
        m_knobs.push_back(new KnobControl(m_plan, info.knob, *grid, card));
    column->addSpacing(4);
    column->addWidget(makeChoices(card));
    auto* hint = makeLabel(QStringLiteral("Sliders stop at legal values only. TP, CP and PP keep "
                                          "the number of devices; DP follows."),
                           "faint", card);
    hint->setWordWrap(true);
    column->addSpacing(4);
    column->addWidget(hint);
    return card;
}

/// Short lists, two beside each other.
QWidget* PlanPage::makeChoices(QWidget* card) {
    auto* widget = new QWidget(card);
    auto* grid = new QGridLayout(widget);
    grid->setContentsMargins(0, 0, 0, 0);
    grid->setHorizontalSpacing(10);
    grid->setVerticalSpacing(4);
    for (const ChoiceInfo& info : choiceTable()) {
        const int number = static_cast<int>(m_choices.size());
        m_choices.push_back(
            new ChoiceControl(m_plan, info.choice, *grid, number / 2, 2 * (number % 2), widget));
        grid->setColumnStretch(2 * (number % 2) + 1, 1);
    }
    return widget;
}

QWidget* PlanPage::makeAnswers() {
    m_answers = new QTabWidget(this);
    m_answers->setObjectName(QStringLiteral("answers"));
    m_answers->setDocumentMode(true);
    m_ranks = new RankMapPanel(m_answers);
    // In the order of Answer.
    m_answers->addTab(makeMemoryAndTime(), QStringLiteral("&Memory and time"));
    m_answers->addTab(makePins(m_answers), QStringLiteral("Pi&nned plans"));
    m_answers->addTab(m_ranks, QStringLiteral("Ran&ks"));
    m_answers->addTab(new RooflinePanel(m_roofline.table(), m_answers),
                      QStringLiteral("Roof&line"));
    connect(m_answers, &QTabWidget::currentChanged, this, &PlanPage::takeShown);
    return m_answers;
}

void PlanPage::showAnswer(Answer answer) {
    m_answers->setCurrentIndex(static_cast<int>(answer));
}

QWidget* PlanPage::makeMemoryAndTime() {
    auto* column = new QWidget(this);
    auto* layout = new QVBoxLayout(column);
    layout->setContentsMargins(0, 6, 0, 0);
    layout->setSpacing(kSpacing);
    m_memory = new StackedMemoryPlot(column);
    layout->addWidget(m_memory, 3);
    m_memory_legend = new ColourLegend(column);
    layout->addWidget(m_memory_legend);
    auto* heading = new QHBoxLayout;
    heading->addWidget(makeLabel(QStringLiteral("Time per phase and step"), "section", column));
    m_mode = new TextLine(TextLine::Look::Faint, column);
    m_mode->setAlignment(Qt::AlignRight);
    m_mode->setObjectName(QStringLiteral("mode"));
    heading->addWidget(m_mode, 1);
    layout->addLayout(heading);
    m_phases = new PhaseShareView(column);
    layout->addWidget(m_phases, 2);
    return column;
}

/// The plan beside the pinned ones; shown once there are any.
QWidget* PlanPage::makePins(QWidget* parent) {
    m_pins = makeTable(&m_pinned, parent);
    m_pins->setObjectName(QStringLiteral("pins"));
    m_pins->setAccessibleName(QStringLiteral("Pinned plans"));
    m_pins->setSelectionBehavior(QAbstractItemView::SelectColumns);
    m_pins->setToolTip(
        QStringLiteral("Bold: not as in the plan at hand. A double click puts the sliders to that "
                       "plan; Delete unpins it."));
    m_pins->horizontalHeader()->setSectionResizeMode(QHeaderView::Stretch);
    m_pins->verticalHeader()->show();
    m_pins->verticalHeader()->setDefaultSectionSize(24);
    connect(m_pins, &QTableView::doubleClicked, this,
            [this](const QModelIndex& index) { m_pinned.choose(index.column()); });
    m_pins->installEventFilter(this);
    return m_pins;
}

bool PlanPage::eventFilter(QObject* watched, QEvent* event) {
    const bool deletes = watched == m_pins && event->type() == QEvent::KeyPress &&
                         static_cast<QKeyEvent*>(event)->key() == Qt::Key_Delete;
    if (!deletes) return QWidget::eventFilter(watched, event);
    m_pinned.unpin(m_pins->currentIndex().column());
    return true;
}

void PlanPage::takePins() {
    const bool any = m_pinned.numPins() > 0;
    const auto tab = static_cast<int>(Answer::Pins);
    const bool first = any && !m_answers->isTabVisible(tab);
    m_answers->setTabVisible(tab, any);
    if (first) showAnswer(Answer::Pins);
    m_pin->setEnabled(m_pinned.canPin());
}

/// Behind another page nobody sees these answers; they come when the page does.
void PlanPage::takeShown() {
    if (!isVisible()) return;
    const auto shown = static_cast<Answer>(m_answers->currentIndex());
    const bool sound = m_plan.hasPlan() && m_plan.violations().empty();
    if (shown == Answer::Ranks && m_mapped != m_plan.revision()) {
        m_mapped = m_plan.revision();
        m_ranks->view()->setMap(sound ? std::optional<RankMap>(m_plan.plan()) : std::nullopt);
    }
    if (shown == Answer::Roofline) m_roofline.refresh();
}

void PlanPage::arrangeTiles() {
    const int columns = width() < kWideEnough ? kNumTiles / 2 : kNumTiles;
    for (int i = 0; i < kNumTiles; ++i) {
        m_tile_grid->addWidget(m_tiles[static_cast<std::size_t>(i)], i / columns, i % columns);
        m_tile_grid->setColumnStretch(i, i < columns ? 1 : 0);
    }
}

void PlanPage::showEvent(QShowEvent* event) {
    QWidget::showEvent(event);
    takeShown();
}

void PlanPage::resizeEvent(QResizeEvent* event) {
    QWidget::resizeEvent(event);
    arrangeTiles();
}

void PlanPage::chooseModel() {
    const QString path =
        QFileDialog::getOpenFileName(this, QStringLiteral("Import a model"), {},
                                     QStringLiteral("Model files (*.json);;All files (*)"));
    if (!path.isEmpty()) m_plan.importModel(path);
}

void PlanPage::choosePlan() {
    const QString path =
        QFileDialog::getOpenFileName(this, QStringLiteral("Open a plan"), {},
                                     QStringLiteral("Plan files (*.json);;All files (*)"));
    if (!path.isEmpty()) m_plan.openPlan(path);
}

void PlanPage::dragEnterEvent(QDragEnterEvent* event) {
    if (event->mimeData()->hasUrls()) event->acceptProposedAction();
}

void PlanPage::dropEvent(QDropEvent* event) {
    const QList<QUrl> urls = event->mimeData()->urls();
    if (!urls.isEmpty() && urls.front().isLocalFile())
        m_plan.importModel(urls.front().toLocalFile());
}

void PlanPage::takePlan() {
    if (!m_plan.hasPlan()) {
        showFault(QStringLiteral("No plan is open."));
        return;
    }
    m_undo->setEnabled(m_plan.canUndo());
    m_redo->setEnabled(m_plan.canRedo());
    const Plan& plan = m_plan.plan();
    m_model_card->setTitle(text(plan.model.name));
    m_model_card->setRows(modelCard(plan.model));
    m_cluster_card->setTitle(text(plan.cluster.name));
    m_cluster_card->setRows(clusterCard(plan.cluster));
    m_layout_line->setText(QStringLiteral("%1 · %2 of %3 devices · %4 micro-batches · schedule %5")
                               .arg(layoutText(plan))
                               .arg(plan.layout.world())
                               .arg(plan.cluster.numDevices())
                               .arg(plan.numMicroBatches())
                               .arg(text(toText(plan.schedule))));
    takeShown();
}

void PlanPage::takePrediction() {
    if (!m_plan.hasPlan()) return;
    const Prediction* prediction = m_plan.prediction();
    m_pin->setEnabled(m_pinned.canPin());
    if (prediction == nullptr) {
        for (MetricTile* tile : m_tiles) tile->clear();
        m_memory->clear();
        m_phases->setShares({});
        m_mode->setText({});
        showFault(m_plan.violations().empty() ? m_plan.fault()
                                              : violationsText(m_plan.violations()));
        return;
    }
    const std::vector<Metric> metrics = planMetrics(m_plan.plan(), *prediction);
    for (std::size_t i = 0; i < m_tiles.size() && i < metrics.size(); ++i)
        m_tiles[i]->show(metrics[i]);
    showFault(m_plan.fault());
    m_sentence->setText(bottleneckText(*prediction));
    m_mode->setText(m_plan.mode() == PredictMode::Simulated ? QStringLiteral("simulated schedule")
                                                            : QStringLiteral("closed form"));
    m_memory->setMemory(prediction->memory);
    m_memory_legend->setEntries(memoryLegend(prediction->memory));
    m_phases->setShares(phaseShares(*prediction));
}

void PlanPage::showFault(const QString& message) {
    m_fault->setText(message);
    m_fault->setVisible(!message.isEmpty());
    m_sentence->setVisible(message.isEmpty());
}

}  // namespace piper::ui
