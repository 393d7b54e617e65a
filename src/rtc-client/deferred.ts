/** `Promise.withResolvers`, which Node 20 does not have: this code runs there, too. */
export function deferred<T>(): PromiseWithResolvers<T> {
  let settle: Omit<PromiseWithResolvers<T>, "promise"> = { resolve: () => {}, reject: () => {} };
  const promise = new Promise<T>((resolve, reject) => {
    settle = { resolve, reject };
  });
  return { promise, ...settle };
}
