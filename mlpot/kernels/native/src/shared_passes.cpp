// Maps and their changes that one pass computes.
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "change_primitive.h"

namespace mlpot {
namespace {

using Arrays = std::unordered_map<std::uintptr_t, mx::array>;

bool is_named(const mx::array& a, const char* name) {
  return a.has_primitive() && std::strcmp(a.primitive().name(), name) == 0;
}

// All arrays that these are computed from, themselves included.
Arrays all_behind(const std::vector<mx::array>& outputs) {
  Arrays found;
  std::vector<mx::array> open = outputs;
  while (!open.empty()) {
    const mx::array a = open.back();
    open.pop_back();
    if (!found.emplace(a.id(), a).second) continue;
    for (const mx::array& i : a.inputs()) open.push_back(i);
    for (const mx::array& s : a.siblings()) open.push_back(s);
  }
  return found;
}

// Through operations that hand on what they get.
std::uintptr_t source(const mx::array& a) {
  const mx::array* at = &a;
  while (is_named(*at, "StopGradient")) at = &at->inputs()[0];
  return at->id();
}

bool same_arrays(const mx::array& map, const mx::array& change, const RadialChanges& primitive) {
  const auto [n_arrays, n_changes] = primitive.counts();
  const auto &a = map.inputs(), &b = change.inputs();
  if (a.size() + n_changes != b.size()) return false;
  for (size_t i = 0; i < a.size(); i++)
    if (source(a[i]) != source(b[i < n_arrays ? i : i + n_changes])) return false;
  return true;
}

bool depend_on(const std::vector<mx::array>& on, const std::vector<mx::array>& of) {
  const Arrays behind = all_behind(of);
  for (const mx::array& a : on)
    if (behind.count(a.id())) return true;
  return false;
}

}  // namespace

int share_passes(std::vector<mx::array>& outputs) {
  int shared = 0;
  std::vector<mx::array> maps, changes;
  for (const auto& [id, a] : all_behind(outputs)) {
    // One array for each operation, the first of its results.
    if (!a.has_primitive() || a.outputs()[0].id() != id) continue;
    if (is_named(a, "MlpotRadialConvolution")) maps.push_back(a);
    if (is_named(a, "MlpotRadialChanges")) changes.push_back(a);
  }
  std::unordered_set<std::uintptr_t> taken;
  for (mx::array& change : changes) {
    auto& primitive = static_cast<RadialChanges&>(change.primitive());
    for (mx::array& map : maps) {
      if (taken.count(map.id()) ||
          !primitive.is_change_of(static_cast<RadialConvolution&>(map.primitive())) ||
          !same_arrays(map, change, primitive) || depend_on(map.outputs(), change.inputs()))
        continue;
      taken.insert(map.id());
      const auto results = primitive.with_values(change.inputs());
      const auto old_changes = change.outputs(), old_values = map.outputs();
      Arrays instead;
      for (size_t i = 0; i < old_changes.size(); i++) {
        instead.emplace(old_changes[i].id(), results[i]);
        instead.emplace(old_values[i].id(), results[old_changes.size() + i]);
      }
      const auto exchange = [&](mx::array& a) {
        const auto found = instead.find(a.id());
        if (found != instead.end()) a = found->second;
      };
      for (auto& [id, a] : all_behind(outputs))
        for (mx::array& i : a.inputs()) exchange(i);
      for (mx::array& o : outputs) exchange(o);
      shared++;
      break;
    }
  }
  return shared;
}

}  // namespace mlpot
