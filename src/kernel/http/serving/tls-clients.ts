import type { Server } from "bun";
import type { ClientTable } from "../../../protocol/client-table.ts";
import { plainAddress } from "../../net/addresses.ts";
import { createForwardedClient, type LoopbackTransport } from "../../net/loopback-transport.ts";

/** For whom the edge of this process asks. */
export type TlsClients = {
  /** The client's address; undefined for a request that the edge does not carry. */
  clientOf(request: Request, server: Server<unknown> | null): string | undefined;
};

export function createTlsClients(table: ClientTable, inner: LoopbackTransport | null): TlsClients {
  const carriedWithin = inner ? createForwardedClient(inner) : () => null;
  return {
    clientOf(request, server) {
      const client = carriedWithin(request);
      if (client !== null) return client;
      const peer = server?.requestIP(request);
      if (!peer) return undefined;
      const address = plainAddress(peer.address);
      // Only the edge's own sockets have a slot, and they are on this machine.
      const isOwn = address === "127.0.0.1" || address === "::1" || address === server?.hostname;
      return isOwn ? table.clientOf(peer.port)?.address : undefined;
    },
  };
}
