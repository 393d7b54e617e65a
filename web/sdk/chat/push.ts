import type { Rest } from "../rest.ts";

/** Where the id of this browser's subscription is kept, so that it can be taken back. */
const KEPT = "stoa-push-subscription";

/** Has this browser woken for the user of the token; asks for permission, so call it from a click. */
export async function subscribePush(rest: Rest, worker: ServiceWorkerRegistration): Promise<string> {
  const { publicKey } = await rest.call<{ publicKey: string }>("GET", "/v1/chat/push/key");
  const known = await worker.pushManager.getSubscription();
  // Made for another server, or before its key changed: this one could not use it.
  if (known && !isFor(known, publicKey)) await known.unsubscribe();
  const subscription = await worker.pushManager.subscribe({
    userVisibleOnly: true,
    applicationServerKey: bytesOf(publicKey),
  });
  const { endpoint, keys } = subscription.toJSON();
  const { id } = await rest.call<{ id: string }>("POST", "/v1/chat/push/subscriptions", { endpoint, keys });
  localStorage.setItem(KEPT, id);
  return id;
}

export async function unsubscribePush(rest: Rest, worker: ServiceWorkerRegistration): Promise<void> {
  const id = localStorage.getItem(KEPT);
  localStorage.removeItem(KEPT);
  await (await worker.pushManager.getSubscription())?.unsubscribe();
  // Unsubscribed as it is, the push service would say so at the next push.
  if (id !== null) await rest.call("DELETE", `/v1/chat/push/subscriptions/${encodeURIComponent(id)}`).catch(() => {});
}

function isFor({ options }: PushSubscription, publicKey: string): boolean {
  const key = options.applicationServerKey;
  const wanted = bytesOf(publicKey);
  if (key === null || key.byteLength !== wanted.length) return false;
  return new Uint8Array(key).every((byte, at) => byte === wanted[at]);
}

function bytesOf(base64url: string): Uint8Array<ArrayBuffer> {
  const binary = atob(base64url.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}
