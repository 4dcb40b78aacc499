// SPDX-FileCopyrightText: 2026 The infinipot_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// A compression of a cache in the CPU's memory, each step of it for all layers in one call: choosing by
// TaR and VaN, moving, counting. In a small model the calls of a tensor library cost more than the
// arithmetic.
//
// infinipot_ros/memory/cache_kernels.py calls these and checks what they take for granted. They write
// only to rows that a cache has, and choose what the policies in PyTorch choose.

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
// One build runs on every x86-64, and uses wider registers where there are some. Without fused
// multiplication, so that both come to the same sums.
#define ON_EACH_PROCESSOR __attribute__((target_clones("avx2", "default")))
#else
#define ON_EACH_PROCESSOR
#endif
#define INLINED static inline __attribute__((always_inline))
#define LANES 8
#define LEAST_NORM 1e-12f

typedef float Lanes __attribute__((vector_size(4 * LANES)));
typedef float HalfOfLanes __attribute__((vector_size(2 * LANES)));

// One segment of a memory. Each of keys[layer], values[layer] is [heads, prefix + capacity, width].
typedef struct {
  int64_t layers, heads, prefix, capacity, width, element_bytes;
  char *const *keys;
  char *const *values;
  int32_t *frame;  // [layers, heads, capacity], as is patch
  int32_t *patch;
  int64_t parted;  // whether infinipot_part was here and not infinipot_join; the caller clears it
} Cache;

enum { DONE = 0, NOT_HERE = 1 };

// Counts up with every change of a signature or a structure.
int32_t infinipot_kernels_version(void) { return 1; }

static int64_t row_bytes(const Cache *cache) { return cache->width * cache->element_bytes; }

static char *row_of(const Cache *cache, char *base, int64_t head, int64_t row)
{
  return base + (head * (cache->prefix + cache->capacity) + cache->prefix + row) * row_bytes(cache);
}

static int64_t label_of(const Cache *cache, int64_t layer, int64_t head)
{
  return (layer * cache->heads + head) * cache->capacity;
}

// ---------------------------------------------------------------------------------------- moving

// Rows `kept` go to the front and those between them behind these, all in their order.
static void part(char *rows, int64_t bytes, const int64_t *kept, int64_t count, char *spare)
{
  int64_t next = 0, gone = 0;
  for (int64_t i = 0, run; i < count; i += run) {
    int64_t first = kept[i];
    for (run = 1; i + run < count && kept[i + run] == first + run;) run++;
    memcpy(spare + gone * bytes, rows + next * bytes, (first - next) * bytes);
    gone += first - next;
    memmove(rows + i * bytes, rows + first * bytes, run * bytes);
    next = first + run;
  }
  // Rows behind the last of the kept are in their places.
  memcpy(rows + count * bytes, spare, gone * bytes);
}

// The way back from what `part` did.
static void join(char *rows, int64_t bytes, const int64_t *kept, int64_t count, char *spare)
{
  int64_t gone = kept[count - 1] + 1 - count;
  memcpy(spare, rows + count * bytes, gone * bytes);
  for (int64_t end = count, run; end > 0; end -= run) {
    for (run = 1; run < end && kept[end - run - 1] == kept[end - run] - 1;) run++;
    int64_t first = kept[end - run], before = run < end ? kept[end - run - 1] + 1 : 0;
    memmove(rows + first * bytes, rows + (end - run) * bytes, run * bytes);
    gone -= first - before;
    memcpy(rows + before * bytes, spare + gone * bytes, (first - before) * bytes);
  }
}

// As `part`, for numbers: too short for a copy of each run.
static void part_labels(int32_t *labels, const int64_t *kept, int64_t count, int32_t *spare)
{
  int64_t gone = 0, last = kept[count - 1];
  for (int64_t i = 0, row = 0; row <= last; row++) {
    if (row == kept[i]) labels[i++] = labels[row];
    else spare[gone++] = labels[row];
  }
  memcpy(labels + count, spare, gone * sizeof *labels);
}

// Of one head's keys or values; the first `room` rows behind those kept are in the stash as well.
static void part_rows(
  const Cache *cache, char *base, int64_t head, const int64_t *kept, int64_t count, char *spare,
  const Cache *stash, char *stash_base, int64_t room)
{
  char *rows = row_of(cache, base, head, 0);
  int64_t bytes = row_bytes(cache);
  part(rows, bytes, kept, count, spare);
  if (room) memcpy(row_of(stash, stash_base, head, 0), rows + count * bytes, room * bytes);
}

static void join_rows(
  const Cache *cache, char *base, int64_t head, const int64_t *kept, int64_t count, char *spare,
  const Cache *stash, char *stash_base, int64_t room)
{
  char *rows = row_of(cache, base, head, 0);
  int64_t bytes = row_bytes(cache);
  if (room) memcpy(rows + count * bytes, row_of(stash, stash_base, head, 0), room * bytes);
  join(rows, bytes, kept, count, spare);
}

// kept: [layers, heads, count], count > 0; NOT_HERE, and nothing is done, unless they rise within `stored`.
// spare: as many rows as one head can lose. stash: a cache of the same shape; `room`, not more than go, are
// the rows that will be written before a way back.
int infinipot_part(
  Cache *cache, int64_t stored, const int64_t *kept, int64_t count, char *spare, const Cache *stash, int64_t room)
{
  for (int64_t head = 0; head < cache->layers * cache->heads; head++)
    for (int64_t i = 0, before = -1; i < count; i++) {
      int64_t row = kept[head * count + i];
      if (row <= before || row >= stored) return NOT_HERE;
      before = row;
    }
  for (int64_t layer = 0; layer < cache->layers; layer++)
    for (int64_t head = 0; head < cache->heads; head++, kept += count) {
      int64_t label = label_of(cache, layer, head);
      part_rows(cache, cache->keys[layer], head, kept, count, spare, stash, stash->keys[layer], room);
      part_rows(cache, cache->values[layer], head, kept, count, spare, stash, stash->values[layer], room);
      part_labels(cache->frame + label, kept, count, (int32_t *)spare);
      part_labels(cache->patch + label, kept, count, (int32_t *)spare);
    }
  cache->parted = 1;
  return DONE;
}

void infinipot_join(
  Cache *cache, const int64_t *kept, int64_t count, char *spare, const Cache *stash, int64_t room)
{
  for (int64_t layer = 0; layer < cache->layers; layer++)
    for (int64_t head = 0; head < cache->heads; head++, kept += count) {
      int64_t label = label_of(cache, layer, head);
      join_rows(cache, cache->keys[layer], head, kept, count, spare, stash, stash->keys[layer], room);
      join_rows(cache, cache->values[layer], head, kept, count, spare, stash, stash->values[layer], room);
      join((char *)(cache->frame + label), sizeof *cache->frame, kept, count, spare);
      join((char *)(cache->patch + label), sizeof *cache->patch, kept, count, spare);
    }
  cache->parted = 0;
}

// -------------------------------------------------------------------------------------- counting

// The rows of a frame table, rising by frame: their number, bytes of a row, and where in it are the frame
// (int64), the camera (int16), what is kept of the frame (float) and its thumbnail (int32, -1 for none).
// freed: room for the thumbnails of rows that go.
typedef struct {
  char *rows;
  int64_t count, bytes, frame, camera, kept, thumbnail;
  int32_t *freed;
  int64_t freed_room, freed_count;
} Table;

static char *field_of(const Table *table, int64_t row, int64_t offset)
{
  return table->rows + row * table->bytes + offset;
}

INLINED int64_t frame_in(const Table *table, int64_t row)
{
  int64_t frame;
  memcpy(&frame, field_of(table, row, table->frame), sizeof frame);
  return frame;
}

INLINED int is_of(const Table *table, int64_t row, int64_t camera)
{
  int16_t owner;
  memcpy(&owner, field_of(table, row, table->camera), sizeof owner);
  return owner == camera;
}

// Note in a camera's rows how many tokens the heads have stored of each frame, on average; from the frame
// `whole_from` on this is `whole`. Its rows with nothing left go.
void infinipot_retain(
  const Cache *cache, int64_t stored, Table *table, int64_t camera, int64_t whole_from, int64_t whole)
{
  int64_t heads = cache->layers * cache->heads, left = 0;
  float kept = 0;
  for (int64_t row = 0; row < table->count; row++)
    if (is_of(table, row, camera)) memcpy(field_of(table, row, table->kept), &kept, sizeof kept);
  for (int64_t head = 0; head < heads; head++) {
    const int32_t *frame = cache->frame + head * cache->capacity;
    for (int64_t i = 0, row = 0, run; i < stored; i += run) {
      for (run = 1; i + run < stored && frame[i + run] == frame[i];) run++;
      while (row < table->count && frame_in(table, row) < frame[i]) row++;
      if (row == table->count) break;
      if (frame_in(table, row) != frame[i] || !is_of(table, row, camera)) continue;
      char *place = field_of(table, row, table->kept);
      memcpy(&kept, place, sizeof kept);
      kept += (float)run;
      memcpy(place, &kept, sizeof kept);
    }
  }
  table->freed_count = 0;
  for (int64_t row = 0; row < table->count; row++) {
    if (is_of(table, row, camera)) {
      char *place = field_of(table, row, table->kept);
      memcpy(&kept, place, sizeof kept);
      kept = frame_in(table, row) >= whole_from ? (float)whole : kept / (float)heads;
      memcpy(place, &kept, sizeof kept);
      if (kept == 0) {
        int32_t thumbnail;
        memcpy(&thumbnail, field_of(table, row, table->thumbnail), sizeof thumbnail);
        if (thumbnail >= 0 && table->freed_count < table->freed_room)
          table->freed[table->freed_count++] = thumbnail;
        continue;
      }
    }
    if (left != row) memcpy(field_of(table, left, 0), field_of(table, row, 0), table->bytes);
    left++;
  }
  table->count = left;
}

// -------------------------------------------------------------------------------------- choosing

INLINED float sum_of(const Lanes *lanes)
{
  HalfOfLanes low, high;
  memcpy(&low, lanes, sizeof low);
  memcpy(&high, (const char *)lanes + sizeof low, sizeof high);
  low += high;
  return (low[0] + low[2]) + (low[1] + low[3]);
}

// The products of a row with itself and with another.
INLINED void multiply(const float *row, const float *other, int64_t width, float *square, float *product)
{
  Lanes squares = {0}, products = {0}, a, b;
  float square_rest = 0, product_rest = 0;
  int64_t i = 0;
  for (; i + LANES <= width; i += LANES) {
    memcpy(&a, row + i, sizeof a);
    memcpy(&b, other + i, sizeof b);
    squares += a * a;
    products += a * b;
  }
  for (; i < width; i++) {
    square_rest += row[i] * row[i];
    product_rest += row[i] * other[i];
  }
  *square = sum_of(&squares) + square_rest;
  *product = sum_of(&products) + product_rest;
}

// An integer that compares as a number does.
INLINED uint32_t in_order(float number)
{
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  return bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
}

INLINED float square_of(const float *row, int64_t width)
{
  Lanes squares = {0}, a;
  float rest = 0;
  int64_t i = 0;
  for (; i + LANES <= width; i += LANES) {
    memcpy(&a, row + i, sizeof a);
    squares += a * a;
  }
  for (; i < width; i++) rest += row[i] * row[i];
  return sum_of(&squares) + rest;
}

INLINED const float *as_float(const char *row, int64_t width, int64_t element_bytes, float *room)
{
  if (element_bytes == sizeof(float)) return (const float *)row;
  // bfloat16 is the upper half of a float.
  for (int64_t i = 0; i < width; i++) {
    uint16_t half;
    memcpy(&half, row + i * sizeof half, sizeof half);
    uint32_t bits = (uint32_t)half << 16;
    memcpy(room + i, &bits, sizeof bits);
  }
  return room;
}

// The ids of the newest `frames` frames that any head of a layer holds, falling; returns how many.
static int64_t newest_frames(
  const Cache *cache, int64_t layer, int64_t stored, int64_t patches, int64_t frames, int32_t *ids)
{
  int64_t found = 0, oldest = stored - frames * patches;
  for (int64_t head = 0; head < cache->heads; head++) {
    const int32_t *frame = cache->frame + label_of(cache, layer, head);
    for (int64_t i = stored - 1; i >= 0 && i >= oldest; i--) {
      if (i + 1 < stored && frame[i] == frame[i + 1]) continue;
      int64_t place = found;
      while (place > 0 && ids[place - 1] < frame[i]) place--;
      if (place == frames) break;
      if (place > 0 && ids[place - 1] == frame[i]) continue;
      if (found < frames) found++;
      memmove(ids + place + 1, ids + place, (found - 1 - place) * sizeof *ids);
      ids[place] = frame[i];
    }
  }
  return found;
}

// How many tokens of a head are older than a frame.
static int64_t older_than(const int32_t *frame, int64_t stored, int32_t id)
{
  int64_t past = stored;
  while (past > 0 && frame[past - 1] >= id) past--;
  return past;
}

// Minus the mean cosine of past keys to the recent ones at their patch (InfiniPot-V, Eq. 4), as integers
// in the order of the scores. Whether every patch lies in the grid. squares, products: room for `past` numbers.
ON_EACH_PROCESSOR
static int score(
  const char *keys, const int32_t *patch, int64_t past, int64_t stored, int64_t patches, int64_t width,
  int64_t element_bytes, float *means, int32_t *counts, float *room, float *squares, float *products,
  uint32_t *scores)
{
  int outside = 0;
  for (int64_t i = 0; i < stored; i++) outside |= patch[i] < 0 || patch[i] >= patches;
  if (outside) return 0;
  memset(means, 0, patches * width * sizeof *means);
  memset(counts, 0, patches * sizeof *counts);
  for (int64_t i = past; i < stored; i++) {
    const float *key = as_float(keys + i * width * element_bytes, width, element_bytes, room);
    float *mean = means + patch[i] * width;
    float norm = fmaxf(sqrtf(square_of(key, width)), LEAST_NORM);
    for (int64_t d = 0; d < width; d++) mean[d] += key[d] / norm;
    counts[patch[i]]++;
  }
  for (int64_t p = 0; p < patches; p++)
    for (int64_t d = 0; counts[p] > 1 && d < width; d++) means[p * width + d] /= (float)counts[p];
  for (int64_t i = 0; i < past; i++) {
    const float *key = as_float(keys + i * width * element_bytes, width, element_bytes, room);
    multiply(key, means + patch[i] * width, width, squares + i, products + i);
  }
  for (int64_t i = 0; i < past; i++) {
    float norm = sqrtf(squares[i]);
    // A zero less the cosine, so that there is one zero.
    float redundancy = 0.0f - products[i] / (norm < LEAST_NORM ? LEAST_NORM : norm);
    uint32_t bits;
    memcpy(&bits, &redundancy, sizeof bits);
    // Infinity or no number: a key or a sum too large for its type, of which nothing is known.
    scores[i] = in_order((bits & 0x7f800000u) == 0x7f800000u ? 0.0f : redundancy);
  }
  return 1;
}

// The `count` highest of `size` scores are those above the result, and the first `ties` equal to it. What is
// left of the scores means nothing.
static uint32_t least_of_top(uint32_t *scores, int64_t size, int64_t count, int64_t *ties)
{
  uint32_t found = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    int32_t tally[256] = {0};
    uint32_t digit = 255;
    for (int64_t i = 0; i < size; i++) tally[scores[i] >> shift & 255]++;
    for (; tally[digit] < count; digit--) count -= tally[digit];
    found |= digit << shift;
    int64_t left = 0;
    for (int64_t i = 0; i < size; i++) {
      uint32_t candidate = scores[i];
      scores[left] = candidate;
      left += (candidate >> shift & 255) == digit;
    }
    size = left;
  }
  *ties = count;
  return found;
}

// Marks of the `count` highest of those of `size` scores that have none yet; among equals the first.
static void mark_top(const uint32_t *scores, int64_t size, int64_t count, uint32_t *room, char *marks)
{
  int64_t open = 0, ties;
  if (count <= 0) return;
  for (int64_t i = 0; i < size; i++) {
    room[open] = scores[i];
    open += !marks[i];
  }
  uint32_t least = least_of_top(room, open, count, &ties);
  for (int64_t i = 0; i < size; i++) {
    if (marks[i] || scores[i] < least) continue;
    if (scores[i] > least || ties-- > 0) marks[i] = 1;
  }
}

// Lengths of a head's values.
ON_EACH_PROCESSOR
static void measure(
  const char *values, int64_t stored, int64_t width, int64_t element_bytes, float *room, float *norms)
{
  for (int64_t i = 0; i < stored; i++) {
    const float *value = as_float(values + i * width * element_bytes, width, element_bytes, room);
    norms[i] = square_of(value, width);
  }
  for (int64_t i = 0; i < stored; i++) norms[i] = sqrtf(norms[i]);
}

// Kernel g(CV) by the deviation of norms over their mean (InfiniPot-V, Alg. 2, lines 18 to 23).
static int64_t kernel_of(const float *norms, int64_t size, const double *thresholds)
{
  double mean = 0, square = 0;
  for (int64_t i = 0; i < size; i++) mean += norms[i];
  mean /= (double)size;
  for (int64_t i = 0; i < size; i++) square += (norms[i] - mean) * (norms[i] - mean);
  double variation = mean > 0 ? sqrt(square / (double)size) / mean : 0;
  int64_t kernel = 7;
  for (int i = 0; i < 3; i++) kernel -= 2 * (variation >= thresholds[i]);
  return kernel;
}

// The cells around one, as many to each side as a kernel reaches, within the grid.
typedef struct {
  int32_t top, bottom, left, right;
} Around;

static void surround(int64_t rows, int64_t columns, int64_t kernel, Around *around)
{
  int64_t reach = kernel / 2;
  for (int64_t row = 0; row < rows; row++)
    for (int64_t column = 0; column < columns; column++)
      *around++ = (Around){
        (int32_t)(row > reach ? row - reach : 0), (int32_t)(row + reach < rows ? row + reach : rows - 1),
        (int32_t)(column > reach ? column - reach : 0),
        (int32_t)(column + reach < columns ? column + reach : columns - 1)};
}

// Means of norms over the cells around each past token that hold one of its frame (Eq. 7), as integers in
// their order. grid: room for the cells of a frame, and as many counts; all zero before and after.
static void pool(
  const int32_t *frame, const int32_t *patch, const float *norms, int64_t past, int64_t patches, int64_t columns,
  const Around *around, float *grid, uint32_t *scores)
{
  float *counts = grid + patches;
  for (int64_t i = 0, end; i < past; i = end) {
    for (end = i; end < past && frame[end] == frame[i]; end++) {
      grid[patch[end]] = norms[end];
      counts[patch[end]] = 1;
    }
    for (int64_t token = i; token < end; token++) {
      const Around *cells = around + patch[token];
      // A kernel as wide as the grid has the same cells around all.
      if (token > i && !memcmp(cells, around + patch[token - 1], sizeof *cells)) {
        scores[token] = scores[token - 1];
        continue;
      }
      float sum = 0, count = 0;
      for (int64_t row = cells->top; row <= cells->bottom; row++)
        for (int64_t cell = row * columns + cells->left; cell <= row * columns + cells->right; cell++) {
          sum += grid[cell];
          count += counts[cell];
        }
      float mean = sum / count;
      // What is no number ranks last, and what is too large first.
      scores[token] = in_order(mean != mean ? -FLT_MAX : mean > FLT_MAX ? FLT_MAX : mean);
    }
    for (int64_t token = i; token < end; token++) grid[patch[token]] = counts[patch[token]] = 0;
  }
}

// Kept rows [layers, heads, count], rising: the newest frames and the past tokens least like them up to
// `share` (Eq. 5), and for the rest those of the largest pooled value norms (InfiniPot-V, Alg. 2).
// thresholds: g(CV)'s three, or NULL for `kernels`, one a layer; without both no VaN, and all is TaR's.
// NOT_HERE, with `kept` undefined, where there is no memory, the recent frames alone are too many or a
// patch lies outside the grid.
int infinipot_choose(
  const Cache *cache, int64_t stored, int64_t rows, int64_t columns, int64_t recent_frames, int64_t share,
  int64_t count, const double *thresholds, const int64_t *kernels, int64_t *kept)
{
  int64_t width = cache->width, patches = rows * columns, heads = cache->heads;
  int with_norms = thresholds || kernels;
  int32_t *ids = malloc((recent_frames + 1) * sizeof *ids);
  int32_t *counts = malloc(patches * sizeof *counts);
  float *means = malloc((patches + 1) * width * sizeof *means);
  float *products = malloc(2 * stored * sizeof *products);
  float *norms = malloc((with_norms ? heads * stored : 1) * sizeof *norms);
  float *grid = calloc(2 * patches, sizeof *grid);
  uint32_t *scores = malloc((2 * stored + 1) * sizeof *scores);
  Around *around = malloc(patches * sizeof *around);
  char *marks = malloc(stored);
  int result = ids && counts && means && products && norms && grid && scores && around && marks ? DONE : NOT_HERE;
  for (int64_t layer = 0; result == DONE && layer < cache->layers; layer++) {
    const int32_t *layer_frame = cache->frame + label_of(cache, layer, 0);
    int64_t frames = newest_frames(cache, layer, stored, patches, recent_frames, ids);
    // More recent frames than fit would push out everything older: the oldest of them become past.
    for (int64_t head = 0; head < heads; head++) {
      const int32_t *frame = layer_frame + head * cache->capacity;
      while (frames > 1 && stored - older_than(frame, stored, ids[frames - 1]) > count) frames--;
    }
    if (with_norms) {
      for (int64_t head = 0; head < heads; head++)
        measure(
          row_of(cache, cache->values[layer], head, 0), stored, width, cache->element_bytes,
          means + patches * width, norms + head * stored);
      surround(
        rows, columns, kernels ? kernels[layer] : kernel_of(norms, heads * stored, thresholds), around);
    }
    for (int64_t head = 0; head < heads; head++, kept += count) {
      const int32_t *frame = layer_frame + head * cache->capacity;
      const int32_t *patch = cache->patch + label_of(cache, layer, head);
      int64_t past = older_than(frame, stored, ids[frames - 1]), recent = stored - past, at = 0;
      if (recent > count || !score(
            row_of(cache, cache->keys[layer], head, 0), patch, past, stored, patches, width,
            cache->element_bytes, means, counts, means + patches * width, products, products + stored, scores)) {
        result = NOT_HERE;
        break;
      }
      int64_t by_tar = (with_norms ? share : count) - recent;
      if (by_tar < 0) by_tar = 0;
      memset(marks, 0, stored);
      mark_top(scores, past, by_tar, scores + stored, marks);
      if (with_norms) {
        pool(frame, patch, norms + head * stored, past, patches, columns, around, grid, scores);
        mark_top(scores, past, count - recent - by_tar, scores + stored, marks);
      }
      for (int64_t i = 0; i < past; i++)
        if (marks[i]) kept[at++] = i;
      for (int64_t i = past; i < stored; i++) kept[at++] = i;
    }
  }
  free(ids);
  free(counts);
  free(means);
  free(products);
  free(norms);
  free(grid);
  free(scores);
  free(around);
  free(marks);
  return result;
}
