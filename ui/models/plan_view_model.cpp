// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/plan_view_model.h"

#include <QDir>
#include <QFileInfo>

#include "core/base/json.h"
#include "ui/models/file_io.h"
#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

constexpr std::size_t kMostUndo = 200;

/// What the rules allow around a plan.
struct LegalTable {
    std::map<Knob, std::vector<std::int64_t>> values;
    std::array<std::vector<ChoiceOption>, kNumChoices> options;
};

LegalTable legalTable(const Plan& plan, const std::stop_token& stop) {
    LegalTable out;
    for (const KnobInfo& info : knobTable()) {
        if (stop.stop_requested()) break;
        out.values[info.knob] = legalValues(plan, info.knob);
    }
    for (const ChoiceInfo& info : choiceTable())
        out.options[static_cast<std::size_t>(info.choice)] = choiceOptions(plan, info.choice);
    return out;
}

}  // namespace

Result<Plan> readPlanFile(const QString& path) {
    const std::string where = path.toStdString();
    PIPER_ASSIGN(const std::string text, readFileText(path));
    PIPER_ASSIGN(Json json, parseJson(text, where));
    const QDir directory = QFileInfo(path).absoluteDir();
    PIPER_ASSIGN(const Json resolved,
                 resolvePlanReferences(std::move(json), [&](const std::string& name) {
                     return readFileText(directory.filePath(QString::fromStdString(name)));
                 }));
    return readPlan(resolved, where);
}

PlanViewModel::PlanViewModel(Executor& executor, QObject* parent)
    : QObject(parent), m_executor(executor) {}

const std::vector<std::int64_t>& PlanViewModel::legal(Knob knob) const {
    static const std::vector<std::int64_t> none;
    const auto found = m_legal.find(knob);
    return found == m_legal.end() ? none : found->second;
}

std::int64_t PlanViewModel::value(Knob knob) const {
    return m_plan ? knobInfo(knob).get(*m_plan) : 0;
}

void PlanViewModel::setPlan(const Plan& plan) {
    replace(std::make_shared<const Plan>(plan));
}

const std::vector<ChoiceOption>& PlanViewModel::options(Choice choice) const {
    return m_options[static_cast<std::size_t>(choice)];
}

void PlanViewModel::setKnob(Knob knob, qint64 value, bool dragging) {
    if (!m_plan || value == this->value(knob)) return;
    const std::string reason = explainIllegal(*m_plan, knob, value);
    if (!reason.empty()) {
        Q_EMIT rejected(knob, value, text(reason));
        return;
    }
    replace(std::make_shared<const Plan>(withKnob(*m_plan, knob, value)),
            dragging ? std::optional(knob) : std::nullopt);
}

void PlanViewModel::setChoice(Choice choice, qint64 option) {
    if (!m_plan || option < 0) return;
    const auto index = static_cast<std::size_t>(option);
    const std::vector<ChoiceOption> options = choiceOptions(*m_plan, choice);
    if (index >= options.size() || options[index].current) return;
    replace(std::make_shared<const Plan>(withChoice(*m_plan, choice, index)));
}

void PlanViewModel::undo() {
    if (m_undo.empty()) return;
    m_redo.push_back(m_plan);
    PlanPointer plan = std::move(m_undo.back());
    m_undo.pop_back();
    m_dragged.reset();
    show(std::move(plan));
}

void PlanViewModel::redo() {
    if (m_redo.empty()) return;
    m_undo.push_back(m_plan);
    PlanPointer plan = std::move(m_redo.back());
    m_redo.pop_back();
    m_dragged.reset();
    show(std::move(plan));
}

void PlanViewModel::setModel(const ModelSpec& model) {
    if (!m_plan) return;
    Plan plan = *m_plan;
    plan.model = model;
    plan.stage_layers.clear();
    plan.expert_placement.clear();
    plan.routing_load = {};
    setPlan(plan);
}

void PlanViewModel::setCluster(const ClusterSpec& cluster) {
    if (!m_plan) return;
    Plan plan = *m_plan;
    plan.cluster = cluster;
    setPlan(plan);
}

void PlanViewModel::replace(PlanPointer plan, std::optional<Knob> dragged) {
    if (m_plan && !(dragged && dragged == m_dragged)) {
        if (m_undo.size() == kMostUndo) m_undo.erase(m_undo.begin());
        m_undo.push_back(m_plan);
    }
    m_redo.clear();
    m_dragged = dragged;
    show(std::move(plan));
}

void PlanViewModel::show(PlanPointer plan) {
    m_plan = std::move(plan);
    ++m_revision;
    predictNow();
    Q_EMIT planChanged();
    Q_EMIT predictionChanged();
    requestSimulation();
}

void PlanViewModel::predictNow() {
    m_violations = validatePlan(*m_plan);
    if (!m_violations.empty()) {
        m_prediction.reset();
        m_fault.clear();
        return;
    }
    accept(predict(*m_plan, PredictMode::ClosedForm), PredictMode::ClosedForm);
}

void PlanViewModel::accept(Result<Prediction> prediction, PredictMode mode) {
    if (!prediction.ok()) {
        // The closed form stays on the page when only the simulation failed.
        m_fault = errorText(prediction.error());
        if (mode == PredictMode::ClosedForm) m_prediction.reset();
        return;
    }
    m_fault.clear();
    m_prediction = std::move(prediction).value();
    m_mode = mode;
}

void PlanViewModel::requestSimulation() {
    const bool runnable = m_violations.empty();
    m_executor.submit(
        QStringLiteral("predict"), Executor::Lane::Interactive,
        [plan = m_plan, runnable, this](const Executor::Context& context) -> Executor::OnWindow {
            auto simulated = std::make_shared<std::optional<Result<Prediction>>>();
            if (runnable) simulated->emplace(predict(*plan, PredictMode::Simulated));
            context.post([simulated, this] {
                if (!*simulated) return;
                accept(std::move(**simulated), PredictMode::Simulated);
                Q_EMIT predictionChanged();
            });
            auto legal = std::make_shared<LegalTable>(legalTable(*plan, context.stop));
            return [legal, this] {
                m_legal = std::move(legal->values);
                m_options = std::move(legal->options);
                Q_EMIT legalValuesChanged();
            };
        });
}

void PlanViewModel::importModel(const QString& path) {
    m_executor.submit(QStringLiteral("import-model"), Executor::Lane::Background,
                      [path, this](const Executor::Context&) -> Executor::OnWindow {
                          Result<std::string> content = readFileText(path);
                          Result<ModelSpec> model =
                              content.ok() ? readModelText(*content, path.toStdString())
                                           : Result<ModelSpec>(content.error());
                          if (model.ok() && model->name.empty())
                              model->name = QFileInfo(path).completeBaseName().toStdString();
                          return [model = std::move(model), this] {
                              if (model.ok())
                                  setModel(*model);
                              else
                                  Q_EMIT importFailed(errorText(model.error()));
                          };
                      });
}

void PlanViewModel::openPlan(const QString& path) {
    m_executor.submit(QStringLiteral("open-plan"), Executor::Lane::Background,
                      [path, this](const Executor::Context&) -> Executor::OnWindow {
                          Result<Plan> plan = readPlanFile(path);
                          return [plan = std::move(plan), this] {
                              if (plan.ok())
                                  setPlan(*plan);
                              else
                                  Q_EMIT importFailed(errorText(plan.error()));
                          };
                      });
}

}  // namespace piper::ui
