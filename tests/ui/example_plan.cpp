// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/ui/example_plan.h"

#include "app/files/files.h"
#include "tests/support/paths.h"

namespace piper::ui::test {
namespace {

Plan bundled(const char* name) {
    Result<Plan> plan = app::loadPlan(piper::test::sourceDir() / "packaging/examples/plans" / name);
    PIPER_CHECK(plan.ok());
    return std::move(plan).value();
}

}  // namespace

Plan clusterPlan() {
    return bundled("mixtral-8x7b-h100.json");
}

Plan localPlan() {
    return bundled("olmoe-tiny.json");
}

}  // namespace piper::ui::test
