/** Replaces the address of our TURN relay in a node's events by the address of the client behind it. */
import { networkInterfaces } from "node:os";
import type { ClientTable } from "../protocol/client-table.ts";
import type { MediaEvent, TransportStats } from "../protocol/media-node.ts";

/** Returns the client behind an `address:port` of our relay; null for other addresses. */
export type RelayedClient = (remoteAddress: string) => string | null;

export function relayedClients(table: ClientTable): RelayedClient {
  return (remoteAddress) => {
    const [, address = "", port = ""] = /^\[?(.*?)\]?:(\d+)$/.exec(remoteAddress) ?? [];
    const client = table.clientOf(Number(port));
    if (!client) return null;
    const isRelay = table.relayedOf(Number(port))?.address === address || isOwnAddress(address);
    return isRelay ? `${client.address}:${client.port}` : null;
  };
}

function isOwnAddress(address: string): boolean {
  return Object.values(networkInterfaces()).some((own) => own?.some((one) => one.address === address));
}

export function withRelayedClient(event: MediaEvent, relayedClient: RelayedClient): MediaEvent {
  switch (event.type) {
    case "participantConnected":
    case "participantReconnected": {
      const client = relayedClient(event.remoteAddress);
      return client === null ? event : { ...event, transport: "relay", remoteAddress: client };
    }
    case "transportStats":
      return { ...event, stats: withRelayedStats(event.stats, relayedClient) };
    default:
      return event;
  }
}

function withRelayedStats(stats: TransportStats, relayedClient: RelayedClient): TransportStats {
  const client = stats.remoteAddress === null ? null : relayedClient(stats.remoteAddress);
  return client === null ? stats : { ...stats, transport: "relay", remoteAddress: client };
}
