/** Publishers get feedback often while they have to find their rate, and less often when they have found it. */
import { expect, test } from "bun:test";
import type { Publication } from "../../../src/sfu/tracks/publication.ts";
import { PublishedLayer } from "../../../src/sfu/tracks/published-layer.ts";
import { PublisherFeedback } from "../../../src/sfu/tracks/publisher-feedback.ts";

const START_MS = 1_000_000;
const repairs = () => ({ nacksIn: 0, nacksOut: 0, keyframesIn: 0, keyframesOut: 0 });

test("a publisher settles some seconds after its first packet, and again after its last loss", () => {
  const feedback = new PublisherFeedback(() => {}, repairs());
  const layer = new PublishedLayer("video", 0, null);
  layer.restart(7, 90_000, START_MS);
  const publications = [{ kind: "video", layers: [layer], downlinkLoss: () => 0 } as unknown as Publication];
  const at = (seconds: number) => START_MS + seconds * 1_000;
  feedback.arrived(1, 7, at(0));
  layer.nack.receive(1, at(0));
  const settled = (...seconds: number[]) => seconds.map((second) => feedback.isSettled(at(second)));
  expect(settled(0, 2.9, 3)).toEqual([false, false, true]);
  layer.nack.receive(3, at(6));
  feedback.tick(publications, null, at(6));
  expect(feedback.isSettled(at(6))).toBe(false);
  layer.nack.receive(2, at(6));
  feedback.tick(publications, null, at(7));
  expect(settled(8.9, 9)).toEqual([false, true]);
});

test("a publisher without transport-wide numbers gets no transport-wide feedback", () => {
  expect(new PublisherFeedback(() => {}, repairs()).isSettled(START_MS)).toBe(true);
});
