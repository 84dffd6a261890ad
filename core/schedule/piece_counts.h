// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

// Part of splitChunks; not for other folders.
namespace piper {

inline constexpr double kInfinite = std::numeric_limits<double>::infinity();
/// Relative, of sums in another order.
inline constexpr double kRounding = 1e-12;

/// One piece of the model on a rank.
struct PieceCost {
    double time = 0.0, persistent = 0.0, kept = 0.0, transient = 0.0;
};

/// Ranks with the same pieces: one, or the two mirrored ones of a bidirectional pipeline.
struct PieceGroup {
    std::vector<std::size_t> positions;
    std::vector<std::vector<double>> moments;  ///< micro-batches held by piece
    double weight = 1.0;                       ///< share of the micro-batches that pass each piece

    /// Bytes of one of the ranks at its peak.
    [[nodiscard]] double memory(const std::vector<PieceCost>& pieces) const;
};

/// What a piece costs by the repeats of the pattern it takes.
struct PieceSeat {
    std::size_t layers = 0;  ///< of the lead (and the rest), fixed
    std::size_t least = 1, most = 0;
    std::vector<PieceCost> cost;  ///< [repeats]
};

/// What a rank of a group may take.
struct PieceLimits {
    double capacity = 0.0, time = 0.0;
};

// Concept: a search in depth over the counts of the pieces. For each resource alone (time; memory
// at each moment) a table says what so many repeats cost at least on the pieces still open. It ends
// a branch where not even their least fits, and where the most that fits is not above the best.

/// How many repeats the pieces of a group take.
class PieceCounts {
public:
    /// Both must outlive this. `most`: repeats by position, at least the seats' least. `bounded`:
    /// memory is a limit.
    PieceCounts(const PieceGroup& group, const std::vector<PieceSeat>& seats,
                const std::vector<std::size_t>& most, bool bounded);

    /// The counts with the highest sum, by piece; nothing when not even the least fit. Takes what
    /// it visits off `budget`; where that is 0 afterwards the answer may not be the highest.
    [[nodiscard]] std::optional<std::vector<std::size_t>> most(const PieceLimits& limits,
                                                               std::size_t& budget) const;

private:
    class Descent;
    [[nodiscard]] double costOf(std::size_t resource, std::size_t piece, const PieceCost& c) const;
    void addMoments();
    void addResource(std::size_t resource);

    const PieceGroup* m_group;
    std::vector<const PieceSeat*> m_seats;
    std::vector<std::size_t> m_cap;  ///< [piece]
    /// Of the group, and their mean, which no choice of pieces slips past one by one.
    std::vector<std::vector<double>> m_moments;
    std::size_t m_resources = 1;
    std::vector<std::size_t> m_least, m_most;  ///< [piece]: repeats of it and the later ones
    std::vector<double> m_transient;           ///< [piece]: at least, of it and the later ones
    /// [resource][piece][repeats - m_least[piece]]: least cost of so many or
    /// more on it and the later ones.
    std::vector<std::vector<std::vector<double>>> m_cost;
};

}  // namespace piper
