import { bitsText, countOf } from "./numbers.ts";
import { Badge } from "./states.tsx";

type Site = { serverName: string; region: string; participants: number | null };
export type Link = {
  servers: string[];
  state: "up" | "silent" | "down" | null;
  rttMs: number | null;
  lossPercent: number | null;
  limitBps: number | null;
};

/** The media servers of a room with their participants, and the links between them. */
export function Sites({ sites, links }: { sites: readonly Site[]; links: readonly Link[] }) {
  return (
    <div class="sites">
      <ul class="tracks">
        {sites.map(({ serverName, region, participants }) => (
          <li key={serverName}>
            <b>{serverName}</b> ({region})
            {sites.length > 1 && <span class="quiet">: {countOf(participants, "participant")}</span>}
          </li>
        ))}
      </ul>
      {links.map((link) => (
        <div key={link.servers.join()} class="row">
          <span>{between(link)}</span>
          <LinkState {...link} />
          {link.rttMs !== null && (
            <span class="quiet small">
              {rttText(link)} round trip, {lossText(link)} lost
              {link.limitBps !== null && `, carries ${bitsText(link.limitBps)}`}
            </span>
          )}
        </div>
      ))}
    </div>
  );
}

export const between = ({ servers }: Pick<Link, "servers">) => servers.join(" \u2194 ");

export const LinkState = ({ state }: Pick<Link, "state">) => <Badge>{state ?? "CONNECTING"}</Badge>;

export const rttText = ({ rttMs }: Pick<Link, "rttMs">) => (rttMs === null ? "\u2013" : `${Math.round(rttMs)} ms`);

export const lossText = ({ lossPercent }: Pick<Link, "lossPercent">) =>
  lossPercent === null ? "\u2013" : `${lossPercent.toFixed(lossPercent < 10 ? 1 : 0)} %`;
