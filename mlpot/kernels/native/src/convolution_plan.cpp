#include "convolution_plan.h"

#include <stdexcept>
#include <utility>

namespace mlpot {
namespace {

constexpr int kIntegersOfAPath = 10;

// Whether M is diagonal, for the sizes that have a kernel of their own for it.
bool is_diagonal(const Coupling& q) {
  if (q.d2 != 1 || q.d1 != q.d3 || (q.d1 != 3 && q.d1 != 5 && q.d1 != 7)) return false;
  for (int i = 0; i < q.d1; i++)
    for (int k = 0; k < q.d3; k++)
      if (i != k && q.at(i, 0, k) != 0) return false;
  return true;
}

// Calls use(i, k, position) for each element of a matrix that is kept.
template <class Use>
void for_elements(const Coupling& q, bool transposed, const Use& use) {
  for (int i = 0; i < q.d1; i++)
    for (int k = 0; k < q.d3; k++) {
      if (q.diagonal) {
        if (i == k) use(i, k, i);
      } else {
        use(i, k, transposed ? k * q.d1 + i : i * q.d3 + k);
      }
    }
}

template <class T>
Matrices<T> make_matrices(const std::vector<Coupling>& couplings, bool transposed) {
  Matrices<T> m;
  m.begin.assign(couplings.size(), -1);
  for (size_t first = 0; first < couplings.size(); first++) {
    if (m.begin[first] >= 0) continue;
    const int y_offset = couplings[first].y_offset, d2 = couplings[first].d2;
    const int begin = m.size;
    std::vector<size_t> members;
    for (size_t q = first; q < couplings.size(); q++)
      if (couplings[q].y_offset == y_offset && couplings[q].d2 == d2) {
        members.push_back(q);
        m.begin[q] = m.size;
        m.size += couplings[q].size();
      }
    m.size += (Simd<T>::lanes - m.size % Simd<T>::lanes) % Simd<T>::lanes;
    const int width = m.size - begin;
    const int64_t at = static_cast<int64_t>(m.coefficients.size());
    m.groups.push_back({y_offset, d2, begin, width, at});
    m.coefficients.resize(at + int64_t(d2) * width, T(0));
    for (size_t q : members)
      for_elements(couplings[q], transposed, [&](int i, int k, int position) {
        for (int j = 0; j < d2; j++)
          m.coefficients[at + int64_t(j) * width + m.begin[q] - begin + position] =
              T(couplings[q].at(i, j, k));
      });
  }
  return m;
}

template <class T>
Tables<T> make_tables(const std::vector<Coupling>& couplings, int dim_y) {
  Tables<T> t;
  t.straight = make_matrices<T>(couplings, false);
  t.transposed = make_matrices<T>(couplings, true);
  std::vector<std::vector<Term<T>>> of(dim_y);
  for (size_t q = 0; q < couplings.size(); q++)
    for_elements(couplings[q], false, [&](int i, int k, int position) {
      for (int j = 0; j < couplings[q].d2; j++)
        if (couplings[q].at(i, j, k) != 0)
          of[couplings[q].y_offset + j].push_back(
              {t.straight.begin[q] + position, T(couplings[q].at(i, j, k))});
    });
  t.term_begin.push_back(0);
  for (const auto& terms : of) {
    t.terms.insert(t.terms.end(), terms.begin(), terms.end());
    t.term_begin.push_back(static_cast<int>(t.terms.size()));
  }
  return t;
}

}  // namespace

Plan::Plan(int dim_x, int dim_y, int n_weights, int dim_out, const std::vector<int>& integers,
           const std::vector<double>& coefficients)
    : dim_x(dim_x), dim_y(dim_y), n_weights(n_weights), dim_out(dim_out) {
  if (integers.size() % kIntegersOfAPath != 0)
    throw std::invalid_argument("a path of a convolution has ten integers");
  size_t used = 0;
  for (size_t at = 0; at < integers.size(); at += kIntegersOfAPath) {
    const int* v = integers.data() + at;
    Path p{v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], 0, true};
    Coupling q{p.y_offset, p.d1, p.d2, p.d3, false, {}};
    const size_t size = size_t(p.d1) * p.d2 * p.d3;
    const bool inside = p.x_offset >= 0 && p.x_offset + (p.d1 - 1) * p.x_stride + p.mul <= dim_x &&
                        p.y_offset >= 0 && p.y_offset + p.d2 <= dim_y && p.w_offset >= 0 &&
                        p.w_offset + p.mul <= n_weights && p.out_offset >= 0 &&
                        p.out_offset + (p.d3 - 1) * p.out_stride + p.mul <= dim_out;
    if (!inside || used + size > coefficients.size())
      throw std::invalid_argument("a path of a convolution reaches outside its arrays");
    q.c.assign(coefficients.begin() + used, coefficients.begin() + used + size);
    used += size;
    q.diagonal = is_diagonal(q);
    p.coupling = static_cast<int>(couplings.size());
    for (size_t o = 0; o < couplings.size(); o++) {
      const Coupling& other = couplings[o];
      if (other.y_offset == q.y_offset && other.d1 == q.d1 && other.d2 == q.d2 &&
          other.d3 == q.d3 && other.c == q.c) {
        p.coupling = static_cast<int>(o);
        p.first_of_coupling = false;
        break;
      }
    }
    operations += int64_t(p.mul) * (p.d1 + q.size());
    if (p.first_of_coupling) couplings.push_back(std::move(q));
    paths.push_back(p);
  }
  tables_float = make_tables<float>(couplings, dim_y);
  tables_double = make_tables<double>(couplings, dim_y);
}

}  // namespace mlpot
