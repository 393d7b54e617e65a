export type Layout = { columns: number; tileWidth: number };

/** Faces are unrecognizable in smaller tiles, so the page scrolls instead. */
const MIN_TILE_WIDTH = 140;

/** The number of columns with the largest 16:9 tiles for an area, and the width of those tiles. */
export function layoutFor(count: number, width: number, height: number, gap = 0): Layout {
  let best: Layout = { columns: 1, tileWidth: 0 };
  for (let columns = 1; columns <= Math.max(1, count); columns++) {
    const rows = Math.ceil(count / columns);
    const across = (width - gap * (columns - 1)) / columns;
    const down = (((height - gap * (rows - 1)) / rows) * 16) / 9;
    const tileWidth = Math.floor(Math.min(across, down));
    if (tileWidth > best.tileWidth) best = { columns, tileWidth };
  }
  if (best.tileWidth >= MIN_TILE_WIDTH) return best;
  const columns = Math.max(1, Math.floor((width + gap) / (MIN_TILE_WIDTH + gap)));
  return { columns, tileWidth: Math.floor((width - gap * (columns - 1)) / columns) };
}
