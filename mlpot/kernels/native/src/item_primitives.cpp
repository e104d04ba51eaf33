#include "item_primitives.h"

namespace mlpot {
namespace {

enum Role { kX, kY, kW, kG };

// The roles of a map's arguments, in their order.
std::vector<Role> roles(const ItemPlan& plan, ItemMap map) {
  std::vector<Role> all;
  if (map != ItemMap::x) all.push_back(kX);
  if (map != ItemMap::y) all.push_back(kY);
  if (map != ItemMap::w && plan.n_weights > 0) all.push_back(kW);
  if (map != ItemMap::out) all.push_back(kG);
  return all;
}

mx::Shape shape_of(const ItemPlan& plan, Role role, int n_items, bool shared) {
  switch (role) {
    case kX:
      return {n_items, plan.dim_x};
    case kY:
      return {n_items, plan.dim_y};
    case kW:
      return shared ? mx::Shape{plan.n_weights} : mx::Shape{n_items, plan.n_weights};
    default:
      return {n_items, plan.dim_out};
  }
}

Role result_of(ItemMap map) {
  return map == ItemMap::x ? kX : map == ItemMap::y ? kY : map == ItemMap::w ? kW : kG;
}

}  // namespace

mx::array ItemProduct::make(const std::shared_ptr<const ItemPlan>& plan, ItemMap map, bool shared,
                            const std::vector<mx::array>& inputs, mx::Stream s) {
  const std::vector<Role> wanted = roles(*plan, map);
  if (inputs.size() != wanted.size())
    throw std::invalid_argument("wrong number of arrays for a product of items");
  const mx::Dtype type = float_type(inputs[0]);
  // The last argument has one row an item: y, per-item weights or the cotangent; x comes first.
  int n_items = 0;
  for (size_t i = 0; i < inputs.size(); i++)
    if (!(wanted[i] == kW && shared)) n_items = inputs[i].ndim() ? inputs[i].shape(0) : 0;
  for (size_t i = 0; i < inputs.size(); i++) {
    if (inputs[i].dtype() != type)
      throw std::invalid_argument("the arrays of a product need one dtype");
    if (inputs[i].shape() != shape_of(*plan, wanted[i], n_items, shared))
      throw std::invalid_argument("an array of a product of items has the wrong shape");
  }
  return mx::array(shape_of(*plan, result_of(map), n_items, shared), type,
                   std::make_shared<ItemProduct>(s, plan, map, shared), inputs);
}

template <class T>
void ItemProduct::eval(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) {
  const std::vector<Role> wanted = roles(*plan_, map_);
  int64_t n_items = 0;
  for (size_t i = 0; i < inputs.size(); i++)
    if (!(wanted[i] == kW && shared_)) n_items = inputs[i].shape(0);
  enqueue<T>(inputs, outputs,
             [plan = plan_, map = map_, shared = shared_, wanted, n_items](
                 const std::vector<const void*>& in, const std::vector<T*>& out) {
               const T* of[4] = {};
               for (size_t i = 0; i < in.size(); i++) of[wanted[i]] = static_cast<const T*>(in[i]);
               item_product<T>(*plan, map, n_items, shared, of[kX], of[kY], of[kW], of[kG],
                               out[0]);
             });
}

void ItemProduct::eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) {
  inputs[0].dtype() == mx::float32 ? eval<float>(inputs, outputs) : eval<double>(inputs, outputs);
}

}  // namespace mlpot
