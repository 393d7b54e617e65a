import { expect, test } from "bun:test";
import { layoutFor } from "../../../web/playground/layout.ts";

const fits = (count: number, width: number, height: number, gap: number) => {
  const { columns, tileWidth } = layoutFor(count, width, height, gap);
  const rows = Math.ceil(count / columns);
  return (
    rows * ((tileWidth * 9) / 16) + gap * (rows - 1) <= height && columns * tileWidth + gap * (columns - 1) <= width
  );
};

test("up to fifty tiles fit a desktop without scrolling, and every screen fits across", () => {
  for (let count = 1; count <= 50; count++) expect(fits(count, 1084, 784, 8)).toBe(true);
  for (let count = 1; count <= 50; count++) {
    const { columns, tileWidth } = layoutFor(count, 374, 600, 8);
    expect(columns * tileWidth + 8 * (columns - 1)).toBeLessThanOrEqual(374);
    expect(tileWidth).toBeGreaterThanOrEqual(140);
  }
});

test.each([
  [1, 1],
  [2, 1],
  [4, 2],
  [9, 3],
])("%d tiles on a wide screen have at least %d columns", (count, least) => {
  expect(layoutFor(count, 1100, 800, 8).columns).toBeGreaterThanOrEqual(least);
});
