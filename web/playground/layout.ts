/** How many columns make the tiles largest, for tiles of 16:9 in an area of this size. */
export function columnsFor(count: number, width: number, height: number): number {
  let best = { columns: 1, size: 0 };
  for (let columns = 1; columns <= Math.max(1, count); columns++) {
    const rows = Math.ceil(count / columns);
    const size = Math.min(width / columns, ((height / rows) * 16) / 9);
    if (size > best.size + 0.5) best = { columns, size };
  }
  // Below this nobody is recognised: let the page scroll instead.
  const readable = Math.max(1, Math.floor(width / 150));
  return Math.min(best.columns, readable);
}
