// The program whose precompiled header the tests share; it does nothing.
int main() { return 0; }
