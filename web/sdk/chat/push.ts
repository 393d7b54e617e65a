import type { Rest } from "../rest.ts";

/** The localStorage key of the subscription's id, which is needed to unsubscribe. */
const STORAGE_KEY = "stoa-push-subscription";

/** Subscribes this browser for the token's user. The browser asks for permission, so call it from a click handler. */
export async function subscribePush(rest: Rest, worker: ServiceWorkerRegistration): Promise<string> {
  const { publicKey } = await rest.call<{ publicKey: string }>("GET", "/v1/chat/push/key");
  const known = await worker.pushManager.getSubscription();
  // This server cannot use a subscription that was made for another server's key.
  if (known && !isFor(known, publicKey)) await known.unsubscribe();
  const subscription = await worker.pushManager.subscribe({
    userVisibleOnly: true,
    applicationServerKey: bytesOf(publicKey),
  });
  const { endpoint, keys } = subscription.toJSON();
  const { id } = await rest.call<{ id: string }>("POST", "/v1/chat/push/subscriptions", { endpoint, keys });
  localStorage.setItem(STORAGE_KEY, id);
  return id;
}

export async function unsubscribePush(rest: Rest, worker: ServiceWorkerRegistration): Promise<void> {
  const id = localStorage.getItem(STORAGE_KEY);
  localStorage.removeItem(STORAGE_KEY);
  await (await worker.pushManager.getSubscription())?.unsubscribe();
  // If this fails, the push service reports the missing subscription at the next push.
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
