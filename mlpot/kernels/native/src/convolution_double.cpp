#include <stdexcept>
#include <string>

#include "radial_convolution_values.h"

namespace mlpot {

MLPOT_INSTANTIATE_CONVOLUTION(double)
MLPOT_INSTANTIATE_RADIAL_CONVOLUTION(double)

namespace {

void check_range(const char* name, const int32_t* index, int64_t n, int64_t limit) {
  for (int64_t i = 0; i < n; i++)
    if (index[i] < 0 || index[i] >= limit)
      throw std::out_of_range(std::string(name) + " " + std::to_string(index[i]) +
                              " is outside 0.." + std::to_string(limit - 1));
}

void check_offsets(const char* name, const int32_t* ptr, int64_t n, int64_t total) {
  bool right = ptr[0] == 0 && ptr[n] == total;
  for (int64_t i = 0; i < n; i++) right = right && ptr[i] <= ptr[i + 1];
  if (!right) throw std::out_of_range(std::string(name) + " does not divide the edges");
}

}  // namespace

void check_rows(const int32_t* rows, int64_t n_edges, int64_t n_coefficients, int64_t n_rows) {
  check_range("row of the table", rows, n_edges, n_rows - n_coefficients + 1);
}

void check(const Edges& edges) {
  check_range("sender", edges.senders, edges.n_edges, edges.n_nodes);
  check_range("receiver", edges.receivers, edges.n_edges, edges.n_nodes);
  check_range("sender_perm", edges.sender_perm, edges.n_edges, edges.n_edges);
  check_offsets("receiver_ptr", edges.receiver_ptr, edges.n_nodes, edges.n_edges);
  check_offsets("sender_ptr", edges.sender_ptr, edges.n_nodes, edges.n_edges);
}

}  // namespace mlpot
