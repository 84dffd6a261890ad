// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QString>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/predict/predict.h"
#include "ui/models/executor.h"
#include "ui/models/plan_choices.h"
#include "ui/models/plan_knobs.h"

namespace piper::ui {

/// The plan under the sliders and what core says of it.
///
/// A change is predicted twice: by the closed form in the same call, so that the paint of the same
/// event shows it, and by simulating the schedule on the executor, whose answer replaces it unless
/// the plan moved on. The legal values of the sliders come with that answer.
class PlanViewModel : public QObject {
    Q_OBJECT
public:
    explicit PlanViewModel(Executor& executor, QObject* parent = nullptr);

    [[nodiscard]] bool hasPlan() const { return m_plan != nullptr; }
    [[nodiscard]] const Plan& plan() const { return *m_plan; }
    [[nodiscard]] std::shared_ptr<const Plan> sharedPlan() const { return m_plan; }
    [[nodiscard]] std::uint64_t revision() const { return m_revision; }

    /// Null while the plan breaks a rule; then violations() says which.
    [[nodiscard]] const Prediction* prediction() const {
        return m_prediction ? &*m_prediction : nullptr;
    }
    [[nodiscard]] PredictMode mode() const { return m_mode; }
    [[nodiscard]] const std::vector<Violation>& violations() const { return m_violations; }
    /// A fault that is not a broken rule, empty without one.
    [[nodiscard]] const QString& fault() const { return m_fault; }
    [[nodiscard]] const std::vector<std::int64_t>& legal(Knob knob) const;
    [[nodiscard]] std::int64_t value(Knob knob) const;
    /// With what the rules said of each when the plan was last looked at; the current one is that
    /// of the plan at hand.
    [[nodiscard]] const std::vector<ChoiceOption>& options(Choice choice) const;
    [[nodiscard]] bool canUndo() const { return !m_undo.empty(); }
    [[nodiscard]] bool canRedo() const { return !m_redo.empty(); }

public Q_SLOTS:
    void setPlan(const piper::Plan& plan);
    /// Refused with rejected() when the value breaks a rule. `dragging`: one more value of a
    /// movement that undo() takes back as a whole.
    void setKnob(piper::ui::Knob knob, qint64 value, bool dragging = false);
    /// The next value of a movement is a change of its own again.
    void endDrag() { m_dragged.reset(); }
    void setChoice(piper::ui::Choice choice, qint64 option);
    /// Back to the plan before the last change, whatever changed it; and forth again.
    void undo();
    void redo();
    void setModel(const piper::ModelSpec& model);
    void setCluster(const piper::ClusterSpec& cluster);
    /// Reads a config.json or model file on the executor.
    void importModel(const QString& path);
    void openPlan(const QString& path);

Q_SIGNALS:
    void planChanged();
    void predictionChanged();
    void legalValuesChanged();
    void rejected(piper::ui::Knob knob, qint64 value, const QString& reason);
    void importFailed(const QString& message);

private:
    using PlanPointer = std::shared_ptr<const Plan>;
    void replace(PlanPointer plan, std::optional<Knob> dragged = {});
    void show(PlanPointer plan);
    void predictNow();
    void requestSimulation();
    void accept(Result<Prediction> prediction, PredictMode mode);

    Executor& m_executor;
    std::shared_ptr<const Plan> m_plan;
    std::uint64_t m_revision = 0;
    std::optional<Prediction> m_prediction;
    PredictMode m_mode = PredictMode::ClosedForm;
    std::vector<Violation> m_violations;
    QString m_fault;
    std::map<Knob, std::vector<std::int64_t>> m_legal;
    std::array<std::vector<ChoiceOption>, kNumChoices> m_options;
    std::vector<PlanPointer> m_undo, m_redo;  ///< latest last
    std::optional<Knob> m_dragged;            ///< the last change was a movement of this knob
};

/// A plan file with the model and cluster files it names, relative to itself. For the executor.
[[nodiscard]] Result<Plan> readPlanFile(const QString& path);

}  // namespace piper::ui
