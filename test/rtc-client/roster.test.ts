import { expect, test } from "bun:test";
import { Roster } from "../../src/rtc-client/participant/roster.ts";

const track = (id: string) => ({ id, kind: "video", source: "camera", muted: false, layers: [] });
const record = (identity: string, tracks: string[], metadata: string | null = null) =>
  ({
    identity,
    metadata,
    name: identity,
    attributes: {},
    kind: "standard",
    joinedAt: "",
    tracks: tracks.map(track),
  }) as never;

function rosterOf(...records: never[]) {
  const events: string[] = [];
  const roster = new Roster(
    (event, ...args) =>
      void events.push([event, ...args.map((arg) => Object(arg).id ?? Object(arg).identity)].join(" ")),
    () => "ok",
  );
  roster.adopt(records, "me", false);
  return { roster, events };
}

test("a list that is not current replaces what a resumed session knew, tracks included", () => {
  const { roster, events } = rosterOf(record("ben", ["old"]), record("cyd", ["lasting"]), record("dan", []));
  roster.adopt([record("ben", ["new"]), record("cyd", ["lasting"], "changed"), record("eve", ["hers"])], "me", false);
  expect(events).toEqual(
    [
      "participantLeft dan",
      "trackPublished new ben",
      "trackUnpublished old ben",
      "participantUpdated cyd",
      "participantJoined eve",
    ].map((text) => expect.stringContaining(text) as never),
  );
  expect(roster.tracks().map(({ trackId }) => trackId)).toEqual(["new", "lasting", "hers"]);
});

test("with a list that is current, changes come as pushes", () => {
  const { roster, events } = rosterOf(record("ben", ["old"]));
  roster.adopt([record("ben", ["new"])], "me", true);
  expect(events).toEqual([]);
  expect(roster.tracks().map(({ trackId }) => trackId)).toEqual(["old"]);
});
