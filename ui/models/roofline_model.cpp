// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/roofline_model.h"

#include <array>

#include "ui/models/phase_colours.h"
#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

QString perSecond(const QString& quantity) {
    return quantity + QStringLiteral("/s");
}

QString rateText(FlopsPerSecond rate) {
    return perSecond(flopsText(Flops(rate.value)));
}

/// Links are in powers of ten, as their vendors state them.
QString linkText(BytesPerSecond rate) {
    return text(humanBytesPerSecond(rate));
}

QString words(std::string_view name) {
    return text(name).replace(u'_', u' ');
}

QString gemmName(const GemmRoof& g) {
    QString phase = phaseLabel(g.key.phase);
    if (g.key.phase == Phase::Expert && g.key.layer == LayerKind::Dense)
        phase = QStringLiteral("Dense MLP");
    if (g.key.shared_expert) phase = QStringLiteral("Shared expert");
    return phase + QStringLiteral(", ") + words(toText(g.key.kind));
}

QString gemmSize(const GemmWork& w) {
    const QString one = QStringLiteral("%1 × %2 × %3").arg(w.m).arg(w.n).arg(w.k);
    return w.groups > 1 ? QStringLiteral("%1 of %2").arg(w.groups).arg(one) : one;
}

QString linkName(const LinkRoof& l) {
    QString name = phaseLabel(l.key.phase);
    if (l.key.phase == Phase::DpComm && l.dimension == "edp")
        name = QStringLiteral("DP of the experts");
    return name + QStringLiteral(", ") + words(toText(l.key.kind));
}

QString evidenceOf(const Evidence& e) {
    return evidenceText(e.kind) + (e.extrapolated ? QStringLiteral(", extrapolated") : QString());
}

bool isKnown(const Evidence& e) {
    return !e.extrapolated &&
           (e.kind == EvidenceKind::Measured || e.kind == EvidenceKind::Published);
}

QString hoverOf(const QString& name, const QString& size, const QString& rate, const QString& roof,
                double share, const Evidence& evidence) {
    return QStringLiteral("%1\n%2\n%3 of %4 (%5)\n%6")
        .arg(name, size, rate, roof, percentText(share), evidenceOf(evidence));
}

}  // namespace

void RooflineModel::setRoofline(Roofline roofline) {
    beginResetModel();
    m_roofline = std::move(roofline);
    endResetModel();
}

std::vector<RoofPoint> RooflineModel::gemmPoints() const {
    std::vector<RoofPoint> out;
    for (const GemmRoof& g : m_roofline.gemms)
        out.push_back({g.intensity(), g.rate.value, g.roof.value, g.key.phase, isKnown(g.evidence),
                       hoverOf(gemmName(g), gemmSize(g.work), rateText(g.rate), rateText(g.roof),
                               g.rate / g.roof, g.evidence)});
    return out;
}

std::vector<RoofPoint> RooflineModel::linkPoints() const {
    std::vector<RoofPoint> out;
    for (const LinkRoof& l : m_roofline.links)
        out.push_back({l.bytes.value, l.rate.value, l.roof.value, l.key.phase, isKnown(l.evidence),
                       hoverOf(linkName(l), bytesText(l.bytes), linkText(l.rate), linkText(l.roof),
                               l.rate / l.roof, l.evidence)});
    return out;
}

int RooflineModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0
                            : static_cast<int>(m_roofline.gemms.size() + m_roofline.links.size());
}

int RooflineModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : ColumnCount;
}

namespace {

QString gemmCell(const GemmRoof& g, int column) {
    switch (column) {
        case RooflineModel::What:
            return gemmName(g);
        case RooflineModel::Size:
            return gemmSize(g.work);
        case RooflineModel::Time:
            return secondsText(g.time);
        case RooflineModel::Rate:
            return rateText(g.rate);
        case RooflineModel::Roof:
            return rateText(g.roof);
        case RooflineModel::Share:
            return percentText(g.rate / g.roof, 0);
        case RooflineModel::Limit:
            return g.memoryBound() ? QStringLiteral("memory") : QStringLiteral("peak");
        default:
            return evidenceOf(g.evidence);
    }
}

QString linkCell(const LinkRoof& l, int column) {
    switch (column) {
        case RooflineModel::What:
            return linkName(l);
        case RooflineModel::Size:
            return QStringLiteral("%1, %2 ranks on %3 nodes")
                .arg(bytesText(l.bytes))
                .arg(l.ranks)
                .arg(l.nodes);
        case RooflineModel::Time:
            return secondsText(l.time);
        case RooflineModel::Rate:
            return linkText(l.rate);
        case RooflineModel::Roof:
            return linkText(l.roof);
        case RooflineModel::Share:
            return percentText(l.rate / l.roof, 0);
        case RooflineModel::Limit:
            return text(l.level);
        default:
            return evidenceOf(l.evidence);
    }
}

}  // namespace

QVariant RooflineModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid()) return {};
    if (role == Qt::TextAlignmentRole) {
        const bool number = index.column() >= Time && index.column() <= Share;
        return QVariant(Qt::AlignVCenter | (number ? Qt::AlignRight : Qt::AlignLeft));
    }
    if (role != Qt::DisplayRole) return {};
    if (index.row() < numGemms())
        return gemmCell(m_roofline.gemms[static_cast<std::size_t>(index.row())], index.column());
    return linkCell(m_roofline.links[static_cast<std::size_t>(index.row() - numGemms())],
                    index.column());
}

QVariant RooflineModel::headerData(int section, Qt::Orientation orientation, int role) const {
    struct Title {
        const char* title;
        const char* definition;
    };
    static constexpr std::array<Title, ColumnCount> kTitles = {
        {{"What", "A kind of GEMM, or of messages, of one micro-batch or step."},
         {"Size", "GEMM: m × n × k of each of its groups. Link: bytes one call hands over."},
         {"Time", "Of one call, as the prediction counts it."},
         {"Rate", "FLOPs over time; bytes for other ranks over time."},
         {"Roof",
          "GEMM: the lower of the dense peak and intensity × memory bandwidth. Link: what "
          "the stated bandwidth of its levels allows."},
         {"Reached", "Rate over roof."},
         {"Limit", "What sets the roof: the peak, the memory, a link level."},
         {"Evidence", "What the time rests on."}}};
    if (orientation != Qt::Horizontal || section < 0 || section >= ColumnCount) return {};
    const Title& title = kTitles[static_cast<std::size_t>(section)];
    if (role == Qt::DisplayRole) return QString::fromUtf8(title.title);
    if (role == Qt::ToolTipRole) return QString::fromUtf8(title.definition);
    return {};
}

}  // namespace piper::ui
