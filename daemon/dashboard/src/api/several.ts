// Sends several requests, a few at a time: a browser opens six connections to one address, and streams use some of
// them.
export async function severally<T, R>(items: readonly T[], request: (item: T) => Promise<R>, at_once = 4): Promise<R[]> {
  const answers = new Array<R>(items.length);
  let next = 0;
  const requestInTurn = async () => {
    for (let at = next++; at < items.length; at = next++) answers[at] = await request(items[at]!);
  };
  await Promise.all(Array.from({ length: Math.min(at_once, items.length) }, requestInTurn));
  return answers;
}
