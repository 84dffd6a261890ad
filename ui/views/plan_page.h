// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>
#include <cstdint>
#include <optional>
#include <vector>

#include "ui/models/workbench.h"

class QGridLayout;
class QHBoxLayout;
class QLabel;
class QPushButton;
class QTabWidget;
class QTableView;

namespace piper::ui {

class ChoiceControl;
class ColourLegend;
class FactCard;
class KnobControl;
class MetricTile;
class PhaseShareView;
class RankMapPanel;
class StackedMemoryPlot;
class TextLine;

/// Model and cluster cards, sliders, and what core predicts, moving under the finger.
class PlanPage : public QWidget {
    Q_OBJECT
public:
    explicit PlanPage(Workbench& workbench, QWidget* parent = nullptr);

    [[nodiscard]] KnobControl* knob(Knob knob) const {
        return m_knobs[static_cast<std::size_t>(knob)];
    }
    [[nodiscard]] ChoiceControl* choice(Choice choice) const {
        return m_choices[static_cast<std::size_t>(choice)];
    }
    [[nodiscard]] MetricTile* tile(std::size_t index) const { return m_tiles[index]; }
    [[nodiscard]] QWidget* memoryPlot() const;
    /// What is shown of the plan beside the sliders.
    enum class Answer { MemoryAndTime, Pins, Ranks, Roofline };
    void showAnswer(Answer answer);

protected:
    void dragEnterEvent(QDragEnterEvent* event) override;
    void dropEvent(QDropEvent* event) override;
    void showEvent(QShowEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    QWidget* makeCards();
    QWidget* makeKnobs();
    QWidget* makeChoices(QWidget* card);
    QWidget* makeControls();
    QWidget* makeAnswers();
    QWidget* makeMemoryAndTime();
    QWidget* makePins(QWidget* parent);
    [[nodiscard]] QHBoxLayout* makeHead();
    void takePins();
    /// Ranks and roofline, while they are shown.
    void takeShown();
    void arrangeTiles();
    void chooseModel();
    void choosePlan();
    void takePlan();
    void takePrediction();
    void showFault(const QString& message);

    PlanViewModel& m_plan;
    PinnedPlansModel& m_pinned;
    RooflineViewModel& m_roofline;
    QPushButton* m_undo = nullptr;
    QPushButton* m_redo = nullptr;
    QPushButton* m_pin = nullptr;
    QTabWidget* m_answers = nullptr;
    QTableView* m_pins = nullptr;
    RankMapPanel* m_ranks = nullptr;
    std::optional<std::uint64_t> m_mapped;  ///< revision of the plan whose ranks are drawn
    FactCard* m_model_card = nullptr;
    FactCard* m_cluster_card = nullptr;
    std::vector<KnobControl*> m_knobs;
    std::vector<ChoiceControl*> m_choices;
    QGridLayout* m_tile_grid = nullptr;
    std::vector<MetricTile*> m_tiles;
    TextLine* m_layout_line = nullptr;
    TextLine* m_sentence = nullptr;
    QLabel* m_fault = nullptr;  ///< broken rules, in place of the sentence
    TextLine* m_mode = nullptr;
    StackedMemoryPlot* m_memory = nullptr;
    ColourLegend* m_memory_legend = nullptr;
    PhaseShareView* m_phases = nullptr;
};

}  // namespace piper::ui
