export type Layout = { columns: number; tileWidth: number };

/** Below this nobody is recognised: the page scrolls instead. */
const SMALLEST = 140;

/** The columns that make the tiles largest, for tiles of 16:9 in an area of this size, and how wide they are then. */
export function layoutFor(count: number, width: number, height: number, gap = 0): Layout {
  let best: Layout = { columns: 1, tileWidth: 0 };
  for (let columns = 1; columns <= Math.max(1, count); columns++) {
    const rows = Math.ceil(count / columns);
    const across = (width - gap * (columns - 1)) / columns;
    const down = (((height - gap * (rows - 1)) / rows) * 16) / 9;
    const tileWidth = Math.floor(Math.min(across, down));
    if (tileWidth > best.tileWidth) best = { columns, tileWidth };
  }
  if (best.tileWidth >= SMALLEST) return best;
  const columns = Math.max(1, Math.floor((width + gap) / (SMALLEST + gap)));
  return { columns, tileWidth: Math.floor((width - gap * (columns - 1)) / columns) };
}
