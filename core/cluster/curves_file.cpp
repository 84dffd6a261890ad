// SPDX-License-Identifier: Apache-2.0
// Measured curves of a cluster file: arrays of points, one object each.
#include "core/cluster/files.h"

#include "core/base/json.h"

namespace piper {
namespace {

/// A number above 0.
double positive(ObjectReader& in, std::string_view key) {
    const double value = in.number(key);
    if (!(value > 0.0) && in.hasValue(key))
        in.note(fail(ErrorCode::InvalidInput, "{} must be above 0", value).at(in.path(key)));
    return value;
}

GemmPoint readGemm(ObjectReader& in) {
    GemmPoint p;
    p.precision = in.enumeration("precision", Precision::Bf16);
    p.groups = in.positiveInt("groups", 1);
    p.m = in.positiveInt("m");
    p.n = in.positiveInt("n");
    p.k = in.positiveInt("k");
    p.rate = FlopsPerSecond(positive(in, "flops_per_second"));
    return p;
}

AttentionPoint readAttention(ObjectReader& in) {
    AttentionPoint p;
    p.precision = in.enumeration("precision", Precision::Bf16);
    p.batch = in.positiveInt("batch");
    p.heads = in.positiveInt("heads");
    p.seq_len = in.positiveInt("seq_len");
    p.head_dim = in.positiveInt("head_dim");
    p.backward = in.boolean("backward", false);
    p.rate = FlopsPerSecond(positive(in, "flops_per_second"));
    return p;
}

MemoryPoint readMemory(ObjectReader& in) {
    MemoryPoint p;
    p.size = Bytes(positive(in, "size_bytes"));
    p.rate = BytesPerSecond(positive(in, "bytes_per_second"));
    return p;
}

CollectivePoint readCollective(ObjectReader& in) {
    CollectivePoint p;
    p.kind = in.enumeration("kind", CollectiveKind::AllToAll);
    p.algorithm = in.string("algorithm", "");
    p.ranks = in.positiveInt("ranks");
    p.ranks_per_node = in.positiveInt("ranks_per_node", 1);
    p.message = Bytes(positive(in, "message_bytes"));
    p.time = Seconds(positive(in, "time_seconds"));
    return p;
}

ExchangePoint readExchange(ObjectReader& in) {
    ExchangePoint p;
    p.algorithm = in.string("algorithm");
    p.ranks = in.positiveInt("ranks");
    p.nodes = in.positiveInt("nodes", 1);
    p.tokens = in.positiveInt("tokens");
    p.row = Bytes(positive(in, "row_bytes"));
    p.topk = in.positiveInt("topk");
    p.node_limit = in.integer("node_limit", 0);
    p.imbalance = in.number("imbalance", 1.0);
    p.time = Seconds(positive(in, "time_seconds"));
    return p;
}

OverheadPoint readOverhead(ObjectReader& in) {
    OverheadPoint p;
    p.operation = in.string("operation");
    p.size = Bytes(in.number("size_bytes", 0.0));
    p.time = Seconds(positive(in, "time_seconds"));
    return p;
}

OperationPoint readOperation(ObjectReader& in) {
    OperationPoint p;
    p.operation = in.string("operation");
    p.kind = in.string("kind");
    p.ratio = positive(in, "ratio");
    return p;
}

/// An array of objects, each read by `read`. The first error stays in `in`.
template <class Point>
std::vector<Point> readPoints(ObjectReader& in, std::string_view key,
                              Point (*read)(ObjectReader& in)) {
    std::vector<Point> out;
    const Json& array = in.child(key);
    if (array.is_null()) return out;
    if (!array.is_array()) {
        in.note(fail(ErrorCode::InvalidInput, "expected an array, found {}", array.type_name())
                    .at(in.path(key)));
        return out;
    }
    for (std::size_t i = 0; i < array.size(); ++i) {
        ObjectReader item(array[i], fmt::format("{}[{}]", in.path(key), i));
        out.push_back(read(item));
        Status status = item.finish();
        if (!status.ok()) {
            in.note(std::move(status).error());
            return out;
        }
    }
    return out;
}

Json writePoint(const GemmPoint& p) {
    return {{"precision", toText(p.precision)},
            {"groups", p.groups},
            {"m", p.m},
            {"n", p.n},
            {"k", p.k},
            {"flops_per_second", p.rate.value}};
}

Json writePoint(const AttentionPoint& p) {
    return {{"precision", toText(p.precision)},
            {"batch", p.batch},
            {"heads", p.heads},
            {"seq_len", p.seq_len},
            {"head_dim", p.head_dim},
            {"backward", p.backward},
            {"flops_per_second", p.rate.value}};
}

Json writePoint(const MemoryPoint& p) {
    return {{"size_bytes", p.size.value}, {"bytes_per_second", p.rate.value}};
}

Json writePoint(const CollectivePoint& p) {
    return {{"kind", toText(p.kind)},
            {"algorithm", p.algorithm},
            {"ranks", p.ranks},
            {"ranks_per_node", p.ranks_per_node},
            {"message_bytes", p.message.value},
            {"time_seconds", p.time.value}};
}

Json writePoint(const ExchangePoint& p) {
    return {
        {"algorithm", p.algorithm},   {"ranks", p.ranks},         {"nodes", p.nodes},
        {"tokens", p.tokens},         {"row_bytes", p.row.value}, {"topk", p.topk},
        {"node_limit", p.node_limit}, {"imbalance", p.imbalance}, {"time_seconds", p.time.value}};
}

Json writePoint(const OverheadPoint& p) {
    return {
        {"operation", p.operation}, {"size_bytes", p.size.value}, {"time_seconds", p.time.value}};
}

Json writePoint(const OperationPoint& p) {
    return {{"operation", p.operation}, {"kind", p.kind}, {"ratio", p.ratio}};
}

template <class Point>
void writePoints(Json& out, const char* key, const std::vector<Point>& points) {
    if (points.empty()) return;
    Json array = Json::array();
    for (const Point& point : points) array.push_back(writePoint(point));
    out[key] = std::move(array);
}

}  // namespace

Result<MeasuredCurves> readCurves(const Json& json, const std::string& where) {
    ObjectReader in(json, where);
    MeasuredCurves curves;
    curves.measured_at = in.string("measured_at", "");
    curves.host = in.string("host", "");
    curves.gemm = readPoints(in, "gemm", readGemm);
    curves.attention = readPoints(in, "attention", readAttention);
    curves.memory = readPoints(in, "memory", readMemory);
    curves.collective = readPoints(in, "collective", readCollective);
    curves.exchange = readPoints(in, "exchange", readExchange);
    curves.overhead = readPoints(in, "overhead", readOverhead);
    curves.operation = readPoints(in, "operation", readOperation);
    PIPER_TRY(in.finish());
    return curves;
}

Json writeCurves(const MeasuredCurves& curves) {
    Json out = Json::object();
    out["measured_at"] = curves.measured_at;
    out["host"] = curves.host;
    writePoints(out, "gemm", curves.gemm);
    writePoints(out, "attention", curves.attention);
    writePoints(out, "memory", curves.memory);
    writePoints(out, "collective", curves.collective);
    writePoints(out, "exchange", curves.exchange);
    writePoints(out, "overhead", curves.overhead);
    writePoints(out, "operation", curves.operation);
    return out;
}

}  // namespace piper
