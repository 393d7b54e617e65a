/** A node sees our relay where a client is behind it: in what it tells, the client takes that place. */
import { networkInterfaces } from "node:os";
import type { ClientTable } from "../protocol/client-table.ts";
import type { MediaEvent, TransportStats } from "../protocol/media-node.ts";

/** The client behind an `address:port` that is one of our relay's sockets; null for everybody else. */
export type ClientBehind = (remoteAddress: string) => string | null;

export function clientsBehindRelay(table: ClientTable): ClientBehind {
  return (remoteAddress) => {
    const [, address = "", port = ""] = /^\[?(.*?)\]?:(\d+)$/.exec(remoteAddress) ?? [];
    const client = table.clientOf(Number(port));
    if (!client) return null;
    const isOurs = table.relayedOf(Number(port))?.address === address || isOwnAddress(address);
    return isOurs ? `${client.address}:${client.port}` : null;
  };
}

function isOwnAddress(address: string): boolean {
  return Object.values(networkInterfaces()).some((own) => own?.some((one) => one.address === address));
}

export function asSeenByClients(event: MediaEvent, clientBehind: ClientBehind): MediaEvent {
  switch (event.type) {
    case "participantConnected":
    case "participantReconnected": {
      const client = clientBehind(event.remoteAddress);
      return client === null ? event : { ...event, transport: "relay", remoteAddress: client };
    }
    case "transportStats":
      return { ...event, stats: statsBehind(event.stats, clientBehind) };
    default:
      return event;
  }
}

function statsBehind(stats: TransportStats, clientBehind: ClientBehind): TransportStats {
  const client = stats.remoteAddress === null ? null : clientBehind(stats.remoteAddress);
  return client === null ? stats : { ...stats, transport: "relay", remoteAddress: client };
}
