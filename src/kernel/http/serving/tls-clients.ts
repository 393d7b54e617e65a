import type { Server } from "bun";
import type { ClientTable } from "../../../protocol/client-table.ts";
import { unmappedAddress } from "../../net/addresses.ts";
import { createForwardedClient, type LoopbackTransport } from "../../net/loopback-transport.ts";

export type TlsClients = {
  /** The client's IP address; undefined for a request that did not come through the TLS thread. */
  clientOf(request: Request, server: Server<unknown> | null): string | undefined;
};

export function createTlsClients(table: ClientTable, loopback: LoopbackTransport | null): TlsClients {
  const forwardedClient = loopback ? createForwardedClient(loopback) : () => null;
  return {
    clientOf(request, server) {
      const client = forwardedClient(request);
      if (client !== null) return client;
      const peer = server?.requestIP(request);
      if (!peer) return undefined;
      const address = unmappedAddress(peer.address);
      // Only sockets of the TLS thread have a slot, and their peer is on this machine.
      const isOwn = address === "127.0.0.1" || address === "::1" || address === server?.hostname;
      return isOwn ? table.clientOf(peer.port)?.address : undefined;
    },
  };
}
