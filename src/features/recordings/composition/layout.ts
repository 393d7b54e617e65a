export type Rectangle = { x: number; y: number; width: number; height: number };

/** Share of the height for the row of tiles below the stage. */
const STRIP_SHARE = 0.2;

const even = (value: number): number => Math.max(2, 2 * Math.floor(value / 2));

/** A grid that is as square as possible; the last row is centred. */
export function gridOf(count: number, width: number, height: number): Rectangle[] {
  if (count === 0) return [];
  const columns = Math.ceil(Math.sqrt(count));
  const rows = Math.ceil(count / columns);
  const cell = { width: even(width / columns), height: even(height / rows) };
  return Array.from({ length: count }, (_, index) => {
    const row = Math.floor(index / columns);
    const inRow = Math.min(columns, count - row * columns);
    const left = (width - inRow * cell.width) / 2;
    return { ...cell, x: evenPosition(left + (index % columns) * cell.width), y: row * cell.height };
  });
}

/** One large stage, with a row of all tiles below it. */
export function stageOf(count: number, width: number, height: number): { stage: Rectangle; cells: Rectangle[] } {
  const stripHeight = even(height * STRIP_SHARE);
  const stage = { x: 0, y: 0, width: even(width), height: even(height - stripHeight) };
  const cellWidth = even(Math.min(width / Math.max(1, count), (stripHeight * 16) / 9));
  const left = (width - count * cellWidth) / 2;
  const cells = Array.from({ length: count }, (_, index) => ({
    x: evenPosition(left + index * cellWidth),
    y: stage.height,
    width: cellWidth,
    height: stripHeight,
  }));
  return { stage, cells };
}

/** Chroma has half the samples, so a tile starts at an even position. */
function evenPosition(value: number): number {
  return Math.max(0, 2 * Math.floor(value / 2));
}
