// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractTableModel>
#include <QObject>
#include <QStringList>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/run/timeline.h"
#include "ui/models/executor.h"

namespace piper::ui {

/// One run on a canvas.
struct TimelinePane {
    QString title;  ///< "modelled", "measured · run 3"
    std::shared_ptr<TimelineSource> source;
    std::size_t step = 0;  ///< the step whose start is time zero of this pane
};

/// An event on a pane.
struct ShownEvent {
    std::size_t pane = 0;
    FoundEvent found;
};

/// Rows and a stretch of time of one pane.
struct TimelineArea {
    std::size_t pane = 0;
    TimeWindow window;
    std::vector<std::size_t> rows;
};

/// The sums of a selection as a table: name, count, sum, mean, longest, share of the sum.
class SelectionTotalsModel : public QAbstractTableModel {
    Q_OBJECT
public:
    enum Column { Name, Count, Sum, Mean, Longest, Share, NumColumns };
    using QAbstractTableModel::QAbstractTableModel;
    void setTotals(std::vector<SelectionTotal> totals);
    [[nodiscard]] const std::vector<SelectionTotal>& totals() const { return m_totals; }
    [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
    [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                      int role) const override;

private:
    std::vector<SelectionTotal> m_totals;
    std::int64_t m_sum_ns = 0;
};

/// What a canvas shows of its panes. Sources are read on the executor's interactive lane alone; the
/// last picture stays until the new one is there.
class TimelineViewModel : public QObject {
    Q_OBJECT
public:
    /// `topic` is this model's own on the executor, which outlives it.
    TimelineViewModel(Executor& executor, QString topic, QObject* parent = nullptr);
    ~TimelineViewModel() override;

    void setPanes(std::vector<TimelinePane> panes);
    [[nodiscard]] const std::vector<TimelinePane>& panes() const { return m_panes; }
    /// Where a pane's time zero is.
    [[nodiscard]] std::int64_t origin(std::size_t pane) const;
    /// Null until the first one was read.
    [[nodiscard]] const TimelineView* picture(std::size_t pane) const;
    /// What each rank of a pane holds over time; of a run in a file it is there some time after the
    /// first picture, and of the first ranks only.
    [[nodiscard]] const std::vector<MemoryCurve>& memory(std::size_t pane) const;
    /// Asks for a picture of the window unless the present one does; cheap, for every frame.
    void want(std::size_t pane, TimeWindow visible, double ns_per_pixel);

    /// Reads the event that stands for a block; eventHovered() follows.
    void hover(std::size_t pane, std::size_t row, const TimelineBlock& block);
    [[nodiscard]] const std::optional<ShownEvent>& hovered() const { return m_hovered; }
    /// The same to keep; eventChosen() follows.
    void choose(std::size_t pane, std::size_t row, const TimelineBlock& block);
    /// The next or the previous event on the row of the chosen one.
    void chooseNeighbour(bool forward);
    /// The next or previous event whose name holds `text`, after the chosen one or after
    /// `from_ns` (relative to the panes' time zero); eventChosen() or notFound() follows.
    void search(const QString& text, bool forward, double from_ns);
    [[nodiscard]] const std::optional<ShownEvent>& chosen() const { return m_chosen; }
    void clearChosen();

    /// Sums what is inside; totalsChanged() follows. Without rows: clears.
    void select(TimelineArea area);
    [[nodiscard]] SelectionTotalsModel& totals() { return m_totals; }

    /// What of the panes' runs could not be read so far, one sentence each.
    [[nodiscard]] QStringList damage() const;

    /// Lines of the text over an event, with its place.
    [[nodiscard]] std::vector<std::string> lines(const ShownEvent& event) const;

Q_SIGNALS:
    void pictureChanged();
    void eventHovered();
    void eventChosen();
    void notFound(const QString& text);
    void totalsChanged();
    void damageChanged();
    void failed(const QString& message);

private:
    struct Request {
        TimeWindow window;
        std::int64_t pixel_ns = 1;
        [[nodiscard]] bool shows(TimeWindow visible, std::int64_t pixel) const;
    };
    struct PaneState {
        std::shared_ptr<const TimelineView> picture;
        std::optional<Request> flying, next;
        std::vector<std::string> damage;
        std::vector<MemoryCurve> memory;  ///< of a run in a file
        bool memory_asked = false;
    };
    using Curves = std::shared_ptr<std::vector<MemoryCurve>>;
    /// What an executor's thread met of a pane's damage.
    struct MetDamage {
        std::size_t pane = 0;
        std::vector<std::string> sentences;
    };
    using Take = std::function<void(const std::optional<ShownEvent>&)>;

    [[nodiscard]] QString topicOf(std::string_view what, std::size_t pane = 0) const;
    void cancelAll();
    void take(MetDamage damage);
    void send(std::size_t pane, const Request& request);
    /// One rank after the other: pictures are asked for in between.
    void readMemory(std::size_t pane, const Curves& so_far);
    /// Asks the panes one after the other until one finds the event.
    void find(const QString& topic, std::vector<std::pair<std::size_t, EventQuery>> queries,
              Take take);

    Executor& m_executor;
    QString m_topic;
    std::vector<TimelinePane> m_panes;
    std::vector<PaneState> m_states;
    std::optional<ShownEvent> m_hovered, m_chosen;
    SelectionTotalsModel m_totals;
};

}  // namespace piper::ui
