// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/cluster_picture.h"

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>

namespace piper::ui {
namespace {

constexpr int kPad = 8;
constexpr int kBus = 4;   ///< thickness of a link
constexpr int kDrop = 8;  ///< from a link down to what hangs on it
constexpr int kGap = 6;
constexpr int kDeviceWidth = 26;
constexpr int kDeviceHeight = 22;
constexpr int kGroupWidth = 190;  ///< narrowest box of a node

}  // namespace

ClusterPicture::ClusterPicture(QWidget* parent) : QWidget(parent) {
    QSizePolicy policy(QSizePolicy::Expanding, QSizePolicy::Minimum);
    policy.setHeightForWidth(true);
    setSizePolicy(policy);
}

void ClusterPicture::setCluster(const std::optional<ClusterSpec>& cluster) {
    m_box.reset();
    if (cluster) m_box = clusterBoxes(*cluster);
    setAccessibleName(QStringLiteral("Picture of the cluster"));
    setAccessibleDescription(m_box ? clusterBoxesText(*m_box) : QString());
    updateGeometry();
    update();
}

int ClusterPicture::heightForWidth(int width) const {
    return m_box ? place(*m_box, {0, 0}, width).rect.height() + 1 : 0;
}

int ClusterPicture::headHeight(const ClusterBox& box) const {
    return line() * (box.link.isEmpty() ? 1 : 2) + 4;
}

ClusterPicture::Placed ClusterPicture::place(const ClusterBox& box, QPoint at, int width) const {
    Placed out{&box, QRect(at, QSize(width, 0)), {}};
    int y = at.y() + kPad + headHeight(box);
    if (!box.link.isEmpty()) y += kBus + kDrop;
    if (!box.inside.empty() && box.inside.front().inside.empty())
        placeDevices(out, y);
    else
        placeGroups(out, y);
    if (box.count > static_cast<std::int64_t>(box.inside.size())) y += line() + 2;
    out.rect.setBottom(y + kPad - 1);
    return out;
}

void ClusterPicture::placeDevices(Placed& out, int& y) const {
    const int left = out.rect.left() + kPad, right = out.rect.right() - kPad;
    int x = left;
    for (const ClusterBox& device : out.box->inside) {
        if (x > left && x + kDeviceWidth > right) {
            x = left;
            y += kDeviceHeight + kGap;
        }
        out.inside.push_back({&device, QRect(x, y, kDeviceWidth, kDeviceHeight), {}});
        x += kDeviceWidth + kGap;
    }
    if (!out.inside.empty()) y += kDeviceHeight + 2;
}

void ClusterPicture::placeGroups(Placed& out, int& y) const {
    const int count = static_cast<int>(out.box->inside.size());
    if (count == 0) return;
    const int room = out.rect.width() - 2 * kPad;
    const int columns = std::clamp((room + kGap) / (kGroupWidth + kGap), 1, count);
    const int each = (room - (columns - 1) * kGap) / columns;
    int row_height = 0;
    for (int i = 0; i < count; ++i) {
        const int column = i % columns;
        if (i > 0 && column == 0) {
            y += row_height + kDrop;
            row_height = 0;
        }
        const QPoint corner(out.rect.left() + kPad + column * (each + kGap), y);
        out.inside.push_back(place(out.box->inside[static_cast<std::size_t>(i)], corner, each));
        row_height = std::max(row_height, out.inside.back().rect.height());
    }
    y += row_height + 2;
}

/// The link as a bar over what hangs on it.
void ClusterPicture::paintLink(QPainter& painter, const Placed& placed) const {
    if (placed.box->link.isEmpty() || placed.inside.empty()) return;
    QColor colour = palette().color(QPalette::Highlight);
    if (placed.box->level > 0) colour = palette().color(QPalette::PlaceholderText);
    const int bar = placed.rect.top() + kPad + headHeight(*placed.box);
    int right = placed.rect.left() + kPad;
    painter.setPen(QPen(colour, 2));
    const int first_row = placed.inside.front().rect.top();
    for (const Placed& one : placed.inside) {
        if (one.rect.top() != first_row) break;
        const int x = one.rect.center().x();
        right = std::max(right, one.rect.right());
        painter.drawLine(x, bar + kBus, x, one.rect.top());
    }
    painter.fillRect(QRect(QPoint(placed.rect.left() + kPad, bar), QPoint(right, bar + kBus - 1)),
                     colour);
}

void ClusterPicture::paint(QPainter& painter, const Placed& placed) const {
    const ClusterBox& box = *placed.box;
    const QColor text = palette().color(QPalette::WindowText);
    const bool device = box.inside.empty();
    painter.setPen(QPen(palette().color(QPalette::Mid), 1));
    painter.setBrush(palette().color(device ? QPalette::Button : QPalette::Base));
    painter.drawRoundedRect(placed.rect.adjusted(0, 0, -1, -1), 3, 3);
    painter.setPen(text);
    if (device) {
        painter.drawText(placed.rect, Qt::AlignCenter, box.title);
        return;
    }
    const int room = placed.rect.width() - 2 * kPad;
    QRect row(placed.rect.left() + kPad, placed.rect.top() + kPad, room, line());
    QFont bold = font();
    bold.setWeight(QFont::DemiBold);
    painter.setFont(bold);
    painter.drawText(row, Qt::AlignVCenter,
                     QFontMetrics(bold).elidedText(box.title, Qt::ElideRight, room));
    painter.setFont(font());
    painter.setPen(palette().color(QPalette::PlaceholderText));
    row.translate(0, line());
    painter.drawText(row, Qt::AlignVCenter,
                     fontMetrics().elidedText(box.link, Qt::ElideRight, room));
    paintLink(painter, placed);
    for (const Placed& one : placed.inside) paint(painter, one);
    const auto more = box.count - static_cast<std::int64_t>(box.inside.size());
    if (more <= 0) return;
    painter.setPen(palette().color(QPalette::PlaceholderText));
    row.moveBottom(placed.rect.bottom() - kPad + 2);
    painter.drawText(row, Qt::AlignVCenter, QStringLiteral("and %1 more").arg(more));
}

void ClusterPicture::paintEvent(QPaintEvent*) {
    if (!m_box) return;
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    paint(painter, place(*m_box, {0, 0}, width()));
}

const ClusterPicture::Placed* ClusterPicture::at(const Placed& placed, QPoint point) {
    if (!placed.rect.contains(point)) return nullptr;
    for (const Placed& one : placed.inside)
        if (const Placed* found = at(one, point)) return found;
    return &placed;
}

bool ClusterPicture::event(QEvent* event) {
    if (event->type() != QEvent::ToolTip || !m_box) return QWidget::event(event);
    const auto* help = static_cast<QHelpEvent*>(event);
    const Placed all = place(*m_box, {0, 0}, width());
    if (const Placed* found = at(all, help->pos())) {
        const ClusterBox& box = *found->box;
        QString tip = box.inside.empty() ? box.hint : box.title;
        if (!box.link.isEmpty()) tip += u'\n' + box.link + u'\n' + box.hint;
        QToolTip::showText(help->globalPos(), tip, this);
    }
    return true;
}

}  // namespace piper::ui
