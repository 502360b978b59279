<?php
// SPDX-License-Identifier: MIT
// Extensions that exchange blocks with the interpreter and with libraries, as far as they are there.
foreach (['dom', 'SimpleXML', 'mbstring', 'pdo_sqlite', 'intl', 'curl', 'iconv', 'phar', 'opcache'] as $name)
    echo $name, extension_loaded($name) ? " yes\n" : " no\n";

$words = [];
for ($i = 0; $i < 100000; $i++)
    $words["k$i"] = str_repeat(chr(97 + $i % 26), $i % 200);
echo count($words), ' ', md5(serialize($words)), "\n";
echo preg_replace('/(\w+) (\w+)/', '$2 $1', 'hello world'), ' ', json_encode(array_slice($words, 0, 9)), "\n";

if (extension_loaded('dom')) {
    $document = new DOMDocument();
    $document->loadXML('<a>' . str_repeat('<b c="d">text</b>', 2000) . '</a>');
    echo strlen($document->saveXML()), ' ', $document->getElementsByTagName('b')->length, "\n";
}
if (extension_loaded('mbstring'))
    echo mb_strtoupper(str_repeat("\u{e4}\u{f6}\u{fc}", 10)), "\n";
if (extension_loaded('pdo_sqlite')) {
    $db = new PDO('sqlite::memory:');
    $db->exec('create table t (n integer, s text)');
    for ($i = 0; $i < 2000; $i++)
        $db->exec("insert into t values ($i, '" . str_repeat('x', $i % 300) . "')");
    echo $db->query('select sum(n), sum(length(s)) from t')->fetch()[1], "\n";
}
if (extension_loaded('intl'))
    echo (new NumberFormatter('de_DE', NumberFormatter::DECIMAL))->format(1234567.89), "\n";
if (extension_loaded('iconv'))
    echo bin2hex(iconv('UTF-8', 'UTF-16LE', "\u{20ac}uro")), "\n";
if (extension_loaded('curl')) {
    $request = curl_init('file://' . __FILE__);
    curl_setopt($request, CURLOPT_RETURNTRANSFER, true);
    echo md5(curl_exec($request)), "\n";
}
