// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/timeline_view_model.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "ui/models/text_format.h"
#include "ui/timeline/describe_event.h"

namespace piper::ui {
namespace {

/// Ranks of a run in a file whose memory is read: a curve may take hundreds of KiB.
constexpr std::size_t kMostCurves = 64;
constexpr std::int64_t kForever = std::int64_t{1} << 61;

/// A power of two near the width of a pixel: small changes of the zoom keep the picture.
std::int64_t pixelFor(double ns_per_pixel) {
    constexpr double kRoot2 = 1.4142;
    const auto ns = static_cast<std::uint64_t>(std::max(1.0, ns_per_pixel * kRoot2));
    return static_cast<std::int64_t>(std::bit_floor(ns));
}

/// What finds the event that stands for a block again.
EventQuery queryOf(std::size_t row, const TimelineBlock& block) {
    EventQuery query;
    query.window = {block.begin_ns, std::max(block.end_ns, block.begin_ns + 1)};
    query.least_ns = block.longest_ns;
    query.rows = {row};
    return query;
}

}  // namespace

void SelectionTotalsModel::setTotals(std::vector<SelectionTotal> totals) {
    beginResetModel();
    m_totals = std::move(totals);
    m_sum_ns = 0;
    for (const SelectionTotal& t : m_totals) m_sum_ns += t.sum_ns;
    endResetModel();
}

int SelectionTotalsModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(m_totals.size());
}

int SelectionTotalsModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : NumColumns;
}

QVariant SelectionTotalsModel::data(const QModelIndex& index, int role) const {
    const SelectionTotal& t = m_totals[static_cast<std::size_t>(index.row())];
    if (role == Qt::TextAlignmentRole && index.column() != Name)
        return QVariant::fromValue(Qt::AlignRight | Qt::AlignVCenter);
    if (role == Qt::ToolTipRole && index.column() == Name) return text(t.name);
    if (role != Qt::DisplayRole) return {};
    switch (index.column()) {
        case Name:
            return text(t.name);
        case Count:
            return countText(static_cast<double>(t.count));
        case Sum:
            return nanosecondsText(t.sum_ns);
        case Mean:
            return nanosecondsText(t.sum_ns / std::max<std::int64_t>(1, t.count));
        case Longest:
            return nanosecondsText(t.longest_ns);
        default:
            return percentText(
                m_sum_ns > 0 ? static_cast<double>(t.sum_ns) / static_cast<double>(m_sum_ns) : 0.0);
    }
}

QVariant SelectionTotalsModel::headerData(int section, Qt::Orientation orientation,
                                          int role) const {
    static const char* const kNames[] = {"Name", "Count", "Sum", "Mean", "Longest", "Share"};
    static const char* const kTips[] = {
        "What the event is called",
        "Events that touch the selection",
        "Of their parts inside the selection, over all selected rows",
        "Sum by count",
        "Whole duration of the longest of them",
        "Of the sum over all names"};
    if (orientation != Qt::Horizontal || section >= NumColumns) return {};
    if (role == Qt::ToolTipRole) return QString::fromLatin1(kTips[section]);
    return role == Qt::DisplayRole ? QString::fromLatin1(kNames[section]) : QVariant();
}

TimelineViewModel::TimelineViewModel(Executor& executor, QString topic, QObject* parent)
    : QObject(parent), m_executor(executor), m_topic(std::move(topic)) {}

TimelineViewModel::~TimelineViewModel() {
    cancelAll();
}

QString TimelineViewModel::topicOf(std::string_view what, std::size_t pane) const {
    return QStringLiteral("%1-%2-%3").arg(m_topic, text(what)).arg(pane);
}

void TimelineViewModel::cancelAll() {
    for (std::size_t i = 0; i < m_panes.size(); ++i)
        for (const char* what : {"view", "memory"}) m_executor.cancel(topicOf(what, i));
    for (const char* what : {"hover", "choose", "select"}) m_executor.cancel(topicOf(what));
}

void TimelineViewModel::setPanes(std::vector<TimelinePane> panes) {
    cancelAll();
    m_panes = std::move(panes);
    m_states.assign(m_panes.size(), {});
    m_hovered.reset();
    m_chosen.reset();
    m_totals.setTotals({});
    Q_EMIT totalsChanged();
    Q_EMIT damageChanged();
}

void TimelineViewModel::take(MetDamage damage) {
    std::vector<std::string>& known = m_states[damage.pane].damage;
    if (known == damage.sentences) return;
    known = std::move(damage.sentences);
    Q_EMIT damageChanged();
}

QStringList TimelineViewModel::damage() const {
    QStringList out;
    for (std::size_t pane = 0; pane < m_panes.size(); ++pane)
        for (const std::string& sentence : m_states[pane].damage)
            out << QStringLiteral("%1: %2").arg(m_panes[pane].title, text(sentence));
    return out;
}

std::int64_t TimelineViewModel::origin(std::size_t pane) const {
    const auto& steps = m_panes[pane].source->steps();
    return steps[std::min(m_panes[pane].step, steps.size() - 1)].begin_ns;
}

const TimelineView* TimelineViewModel::picture(std::size_t pane) const {
    return m_states[pane].picture.get();
}

bool TimelineViewModel::Request::shows(TimeWindow visible, std::int64_t pixel) const {
    return pixel_ns == pixel && window.begin_ns <= visible.begin_ns &&
           window.end_ns >= visible.end_ns;
}

void TimelineViewModel::want(std::size_t pane, TimeWindow visible, double ns_per_pixel) {
    PaneState& state = m_states[pane];
    const std::int64_t pixel = pixelFor(ns_per_pixel);
    state.next.reset();
    if (state.picture &&
        Request{state.picture->window, state.picture->pixel_ns}.shows(visible, pixel))
        return;
    if (state.flying && state.flying->shows(visible, pixel)) return;
    // Some more to both sides, so that panning has something to show.
    const std::int64_t margin = visible.length() / 2;
    const Request request{{visible.begin_ns - margin, visible.end_ns + margin}, pixel};
    // Asking anew would drop the answer that is on its way, again and again while the view moves.
    if (state.flying)
        state.next = request;
    else
        send(pane, request);
}

void TimelineViewModel::send(std::size_t pane, const Request& request) {
    m_states[pane].flying = request;
    m_executor.submit(
        topicOf("view", pane), Executor::Lane::Interactive,
        [this, pane, request,
         source = m_panes[pane].source](const Executor::Context&) -> Executor::OnWindow {
            auto view = std::make_shared<Result<TimelineView>>(
                source->view(request.window, request.pixel_ns));
            return [this, pane, view, met = MetDamage{pane, source->damage()}] {
                PaneState& state = m_states[pane];
                state.flying.reset();
                take(met);
                const bool ok = view->ok();
                if (ok)
                    state.picture = std::make_shared<const TimelineView>(std::move(*view).value());
                else
                    Q_EMIT failed(errorText(view->error()));
                if (const std::optional<Request> next = std::exchange(state.next, {}))
                    send(pane, *next);
                if (ok && !std::exchange(state.memory_asked, true))
                    readMemory(pane, std::make_shared<std::vector<MemoryCurve>>());
                // After a failure nothing is drawn anew, or that frame would ask again at once.
                if (ok) Q_EMIT pictureChanged();
            };
        });
}

const std::vector<MemoryCurve>& TimelineViewModel::memory(std::size_t pane) const {
    const std::vector<MemoryCurve>& there = m_panes[pane].source->memory();
    return there.empty() ? m_states[pane].memory : there;
}

void TimelineViewModel::readMemory(std::size_t pane, const Curves& so_far) {
    const std::shared_ptr<TimelineSource>& source = m_panes[pane].source;
    if (!source->memory().empty()) return;
    if (so_far->size() == std::min(source->header().ranks.size(), kMostCurves)) {
        m_states[pane].memory = std::move(*so_far);
        const auto empty = [](const MemoryCurve& curve) { return curve.empty(); };
        if (!std::ranges::all_of(m_states[pane].memory, empty)) Q_EMIT pictureChanged();
        return;
    }
    m_executor.submit(
        topicOf("memory", pane), Executor::Lane::Interactive,
        [this, pane, so_far, source](const Executor::Context&) -> Executor::OnWindow {
            auto curve = std::make_shared<Result<MemoryCurve>>(source->readMemory(so_far->size()));
            return [this, pane, so_far, curve, met = MetDamage{pane, source->damage()}] {
                take(met);
                if (!curve->ok()) {
                    Q_EMIT failed(errorText(curve->error()));
                    return;
                }
                so_far->push_back(std::move(*curve).value());
                readMemory(pane, so_far);
            };
        });
}

void TimelineViewModel::find(const QString& topic,
                             std::vector<std::pair<std::size_t, EventQuery>> queries, Take take) {
    std::vector<std::pair<std::shared_ptr<TimelineSource>, std::pair<std::size_t, EventQuery>>>
        work;
    for (auto& query : queries) work.emplace_back(m_panes[query.first].source, std::move(query));
    m_executor.submit(topic, Executor::Lane::Interactive,
                      [this, work = std::move(work), take = std::move(take)](
                          const Executor::Context& context) -> Executor::OnWindow {
                          std::optional<ShownEvent> shown;
                          std::vector<MetDamage> met;
                          QString fault;
                          for (const auto& [source, query] : work) {
                              if (shown || context.stop.stop_requested()) break;
                              const auto found = source->find(query.second);
                              met.push_back({query.first, source->damage()});
                              if (!found.ok())
                                  fault = errorText(found.error());
                              else if (*found)
                                  shown = ShownEvent{query.first, **found};
                          }
                          return [this, shown, fault, take, met = std::move(met)] {
                              for (const MetDamage& damage : met) this->take(damage);
                              if (!fault.isEmpty()) Q_EMIT failed(fault);
                              take(shown);
                          };
                      });
}

void TimelineViewModel::hover(std::size_t pane, std::size_t row, const TimelineBlock& block) {
    m_hovered.reset();
    find(topicOf("hover"), {{pane, queryOf(row, block)}}, [this](const auto& shown) {
        m_hovered = shown;
        Q_EMIT eventHovered();
    });
}

void TimelineViewModel::choose(std::size_t pane, std::size_t row, const TimelineBlock& block) {
    find(topicOf("choose"), {{pane, queryOf(row, block)}}, [this](const auto& shown) {
        m_chosen = shown;
        Q_EMIT eventChosen();
    });
}

void TimelineViewModel::chooseNeighbour(bool forward) {
    if (!m_chosen) return;
    const Event& e = m_chosen->found.event;
    EventQuery query;
    query.forward = forward;
    query.begins_in_window = true;
    query.rows = {m_chosen->found.row};
    query.window =
        forward ? TimeWindow{e.start_ns + 1, kForever} : TimeWindow{-kForever, e.start_ns};
    find(topicOf("choose"), {{m_chosen->pane, query}}, [this](const auto& shown) {
        if (!shown) return;
        m_chosen = shown;
        Q_EMIT eventChosen();
    });
}

void TimelineViewModel::search(const QString& wanted, bool forward, double from_ns) {
    std::vector<std::size_t> order;
    if (m_chosen) order.push_back(m_chosen->pane);
    // The measured run stands last and is looked through first.
    for (std::size_t pane = m_panes.size(); pane-- > 0;)
        if (!m_chosen || pane != m_chosen->pane) order.push_back(pane);
    std::vector<std::pair<std::size_t, EventQuery>> queries;
    for (const std::size_t pane : order) {
        EventQuery query;
        query.forward = forward;
        query.begins_in_window = true;
        query.text = wanted.toStdString();
        const std::int64_t from = m_chosen && m_chosen->pane == pane
                                      ? m_chosen->found.event.start_ns
                                      : origin(pane) + static_cast<std::int64_t>(from_ns) - 1;
        query.window = forward ? TimeWindow{from + 1, kForever} : TimeWindow{-kForever, from};
        queries.emplace_back(pane, query);
    }
    if (!order.empty()) {
        // Around the end to the other one.
        EventQuery whole = queries.front().second;
        whole.window = {-kForever, kForever};
        queries.emplace_back(order.front(), std::move(whole));
    }
    find(topicOf("choose"), std::move(queries), [this, wanted](const auto& shown) {
        if (!shown) {
            Q_EMIT notFound(wanted);
            return;
        }
        m_chosen = shown;
        Q_EMIT eventChosen();
    });
}

void TimelineViewModel::clearChosen() {
    m_executor.cancel(topicOf("choose"));
    m_chosen.reset();
    Q_EMIT eventChosen();
}

void TimelineViewModel::select(TimelineArea area) {
    if (area.rows.empty() || area.window.length() <= 0) {
        m_executor.cancel(topicOf("select"));
        m_totals.setTotals({});
        Q_EMIT totalsChanged();
        return;
    }
    m_executor.submit(topicOf("select"), Executor::Lane::Interactive,
                      [this, source = m_panes[area.pane].source,
                       area = std::move(area)](const Executor::Context&) -> Executor::OnWindow {
                          auto totals = std::make_shared<Result<std::vector<SelectionTotal>>>(
                              source->totals(area.window, area.rows));
                          return [this, totals, met = MetDamage{area.pane, source->damage()}] {
                              take(met);
                              if (totals->ok())
                                  m_totals.setTotals(std::move(*totals).value());
                              else
                                  Q_EMIT failed(errorText(totals->error()));
                              Q_EMIT totalsChanged();
                          };
                      });
}

std::vector<std::string> TimelineViewModel::lines(const ShownEvent& event) const {
    const TimelineSource& source = *m_panes[event.pane].source;
    const TimelineRow& row = source.rows()[event.found.row];
    const RankTimeline& rank = source.header().ranks[row.rank];
    Event relative = event.found.event;
    relative.start_ns -= origin(event.pane);
    std::vector<std::string> out = describeEvent(relative, rank);
    out.push_back(placeText(row, rank));
    return out;
}

}  // namespace piper::ui
