// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/page_icons.h"

#include <QPainter>
#include <QPixmap>
#include <array>

namespace piper::ui {
namespace {

constexpr std::array<const char*, kNumPages> kNames = {
    "sessions", "plan", "explore", "schedule", "runs", "timeline", "compare", "export"};

void bars(QPainter& p, std::initializer_list<QRectF> rects) {
    for (const QRectF& r : rects) p.fillRect(r, p.pen().color());
}

void drawIcon(QPainter& p, PageId page) {
    switch (page) {
        case PageId::Sessions:
            p.drawRoundedRect(QRectF(2, 2.5, 12, 4.5), 1, 1);
            p.drawRoundedRect(QRectF(2, 9, 12, 4.5), 1, 1);
            bars(p, {{4, 4, 2, 1.5}, {4, 10.5, 2, 1.5}});
            break;
        case PageId::Plan:
            for (const auto& [y, x] : {std::pair{3.5, 10.0}, {8.0, 4.5}, {12.5, 8.5}}) {
                p.drawLine(QPointF(2, y), QPointF(14, y));
                bars(p, {{x - 1.2, y - 2, 2.4, 4}});
            }
            break;
        case PageId::Explore:
            p.drawEllipse(QPointF(6.8, 6.8), 4.4, 4.4);
            p.drawLine(QPointF(10.2, 10.2), QPointF(14, 14));
            break;
        case PageId::Schedule:
            bars(p, {{2, 2.5, 6, 2.6}, {5, 6.7, 6, 2.6}, {8, 10.9, 6, 2.6}});
            break;
        case PageId::Runs:
            p.drawPolygon(QPolygonF({{4, 2.5}, {13, 8}, {4, 13.5}}));
            break;
        case PageId::Timeline:
            bars(p, {{2, 3, 4, 2}, {7, 3, 7, 2}, {2, 7, 8, 2}, {11, 7, 3, 2}, {4, 11, 6, 2}});
            break;
        case PageId::Compare:
            bars(p, {{2.5, 7, 3, 7}, {6.2, 4, 3, 10}, {10.8, 9, 3, 5}});
            break;
        case PageId::Export:
            p.drawPolyline(QPolygonF({{6, 3}, {2.5, 3}, {2.5, 13.5}, {13.5, 13.5}, {13.5, 10}}));
            p.drawLine(QPointF(7, 9), QPointF(13.5, 2.5));
            p.drawPolyline(QPolygonF({{9.5, 2.5}, {13.5, 2.5}, {13.5, 6.5}}));
            break;
    }
}

}  // namespace

QString pageName(PageId page) {
    return QString::fromLatin1(kNames[static_cast<std::size_t>(page)]);
}

QString pageTitle(PageId page) {
    QString name = pageName(page);
    name[0] = name[0].toUpper();
    return name;
}

QIcon pageIcon(PageId page, const QColor& colour, double ratio) {
    QPixmap pixmap(QSize(16, 16) * ratio);
    pixmap.setDevicePixelRatio(ratio);
    pixmap.fill(Qt::transparent);
    QPainter painter(&pixmap);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(QPen(colour, 1.3));
    drawIcon(painter, page);
    return QIcon(pixmap);
}

}  // namespace piper::ui
